// Names of scopes and marks: from a Python str to an interned id.
#pragma once

#include <cstddef>
#include <cstdint>

#include "python/native/python.h"

namespace sonde::native {

namespace detail {
inline constexpr std::size_t kCacheSize = 1024;
struct CachedName {
  PyObject* text;  // a strong reference, so that no other string gets its address
  std::uint32_t id;
};
extern CachedName g_names[kCacheSize];
// The place in the cache of the string at this address.
inline std::size_t slot_of(const PyObject* text) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  return (address >> 4 ^ address >> 14) % kCacheSize;
}
// 0 without an exception: the name is too long, or the table is full. Caches what it found.
std::uint32_t intern_slow(PyObject* text) noexcept;
}  // namespace detail

// `text` is a str. By identity first: a literal is the same object each time around the loop.
inline std::uint32_t name_id(PyObject* text) noexcept {
  const detail::CachedName& cached = detail::g_names[detail::slot_of(text)];
  if (cached.text == text) [[likely]]
    return cached.id;
  return detail::intern_slow(text);
}

}  // namespace sonde::native
