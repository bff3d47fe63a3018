// Looking at the open stack of another thread, which goes on pushing and popping: by design there
// is no lock, and what is seen is what was there at some moment, or nothing. These functions are
// the only ones that read or write another thread's slots; the thread sanitizer is told so here and
// nowhere else.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/record/layout.h"

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

// For what holds still by agreement (the gate is closed, or the host's lock is held) and not by a
// lock that a sanitizer can see.
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

// An open scope as it was when it was copied.
class PeekedScope {
 public:
  // False when there is no open scope in that slot, or when it changed meanwhile.
  bool read(const Lane& lane, std::uint32_t slot) noexcept {
    const OpenScope& there = lane.stack[slot];
    if (slot >= lane.depth.load(std::memory_order_acquire)) return false;
    detail::racy_copy<std::uint64_t>(&there, storage_, sizeof(OpenScope) / sizeof(std::uint64_t));
    const std::size_t offset = std::min<std::size_t>(scope().text_offset, kLaneArenaBytes);
    text_bytes_ = std::min<std::size_t>(kLaneArenaBytes - offset,
                                        std::size_t{scope().name_length} + scope().attrs_length);
    detail::racy_copy<char>(lane.arena + offset, text_, text_bytes_);
    std::uint64_t sequence;
    detail::racy_copy<std::uint64_t>(&there.sequence, &sequence, 1);
    return sequence == scope().sequence && sequence != 0 &&
           slot < lane.depth.load(std::memory_order_acquire);
  }

  // The session's scope; its text stays where it is. False: there is none.
  bool read_session(const Header& head) noexcept {
    detail::racy_copy<std::uint64_t>(&head.session, storage_,
                                     sizeof(OpenScope) / sizeof(std::uint64_t));
    text_bytes_ = 0;
    return scope().sequence != 0;
  }

  const OpenScope& scope() const noexcept { return *reinterpret_cast<const OpenScope*>(storage_); }
  // Name if it is not interned, then attributes.
  std::string_view text() const noexcept { return {text_, text_bytes_}; }
  bool closed() const noexcept {
    return (scope().flags.load(std::memory_order_relaxed) & kSlotClosed) != 0 ||
           scope().closing != 0;
  }

 private:
  alignas(OpenScope) std::byte storage_[sizeof(OpenScope)];
  char text_[kLaneArenaBytes];
  std::size_t text_bytes_ = 0;
};

}  // namespace sonde::record
