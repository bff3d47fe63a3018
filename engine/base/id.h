// Identifiers: 128 bits, mixed from a random key per session and a counter, written as 32 lowercase
// hex digits. On the hot path only the 64-bit counter exists; the rest happens when draining.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sonde::base {

struct Id {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;
  friend bool operator==(const Id&, const Id&) = default;
  explicit operator bool() const noexcept { return (hi | lo) != 0; }
};

struct IdHash {
  std::size_t operator()(const Id& id) const noexcept {
    return id.hi ^ (id.lo * 0x9E3779B97F4A7C15u);
  }
};

// A bijection on 64 bits (the finaliser of SplitMix64): different counters give different ids.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Id number `sequence` of the session with this key. Sequence 0 means "none" and gives the null id.
constexpr Id make_id(const Id& key, std::uint64_t sequence) noexcept {
  if (sequence == 0) return {};
  return {mix64(sequence ^ key.hi), mix64(sequence + key.lo)};
}

// 16 bytes from the kernel's random source.
Id random_id() noexcept;

// Writes exactly 32 characters, no terminator.
void write_hex(const Id& id, char* out) noexcept;

// Accepts exactly 32 hex digits of either case.
bool parse_hex(std::string_view text, Id& out) noexcept;

}  // namespace sonde::base
