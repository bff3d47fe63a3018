// Reading and writing another thread's slots without a lock. Only these functions do that; the
// thread sanitizer is told so here and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#define SONDE_RACY __attribute__((no_sanitize("thread"), noinline))

namespace sonde::record {

namespace detail {

// Byte by byte or word by word, but never by memcpy, which a sanitizer would look into.
template <typename Word>
SONDE_RACY inline void racy_copy(const void* from, void* to, std::size_t count) noexcept {
  const auto* source = static_cast<const volatile Word*>(from);
  auto* target = static_cast<Word*>(to);
  for (std::size_t i = 0; i < count; ++i) target[i] = source[i];
}

// For memory that no thread changes at this moment because the gate is closed or the host's lock is
// held. A sanitizer sees no lock there.
inline void quiet_copy(const void* from, void* to, std::size_t bytes) noexcept {
#ifdef __SANITIZE_THREAD__
  racy_copy<std::uint64_t>(from, to, bytes / sizeof(std::uint64_t));
#else
  std::memcpy(to, from, bytes);
#endif
}

SONDE_RACY inline void racy_store(std::uint64_t& place, std::uint64_t value) noexcept {
  *static_cast<volatile std::uint64_t*>(&place) = value;
}

}  // namespace detail

}  // namespace sonde::record
