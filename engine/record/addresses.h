// Where the parts of this process's journal lie in memory. The range of addresses is reserved once
// and never moves, so pointers into it stay good while the memory under it is exchanged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/record/layout.h"

namespace sonde::record {

namespace detail {
extern std::byte* g_base;  // set once, before anything is recorded (backing.cpp)
// Makes the journal of this process, if there is none yet (journal.cpp).
void make_journal();
}  // namespace detail

// How many bytes of the journal come before block number `blocks`.
constexpr std::size_t bytes_for(std::uint32_t blocks) noexcept {
  return kBlocksOffset + std::size_t{blocks} * kBlockBytes;
}

inline Header& journal_header() noexcept { return *reinterpret_cast<Header*>(detail::g_base); }
inline char* journal_names() noexcept {
  return reinterpret_cast<char*>(detail::g_base + kNamesOffset);
}
inline BlockHeader& block_at(std::uint32_t number) noexcept {
  return *reinterpret_cast<BlockHeader*>(detail::g_base + bytes_for(number));
}
inline std::byte* bytes_of_block(std::uint32_t number) noexcept {
  return detail::g_base + bytes_for(number);
}

}  // namespace sonde::record
