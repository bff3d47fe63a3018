// When scopes ended that somebody else closed: their parent, the end of the session, of a thread.
// Whoever holds the scope's handle asks here. All of it is off the hot path.
#pragma once

#include <cstdint>

namespace sonde::record {

// Any thread. Kept until take_end is called for it, which whoever opened the scope has to do.
void note_end(std::uint64_t sequence, std::uint64_t end_ns) noexcept;
// Monotonic; 0: nobody noted one.
std::uint64_t noted_end(std::uint64_t sequence) noexcept;
std::uint64_t take_end(std::uint64_t sequence) noexcept;

namespace detail {
// In a forked child, where those of the parent mean nothing and a thread that is not here may have
// been at it.
void forget_ends() noexcept;
}  // namespace detail

}  // namespace sonde::record
