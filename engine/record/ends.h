// The ends of scopes that were not closed through their handle but with their parent, their thread
// or the session. The object that holds the handle asks here for the time. All of it is off the hot
// path.
#pragma once

#include <cstdint>

namespace sonde::record {

// Any thread. The holder of the handle must call take_end, which drops the entry.
void note_end(std::uint64_t sequence, std::uint64_t end_ns) noexcept;
// Any thread. Monotonic; 0: none was noted. take_end forgets it.
std::uint64_t noted_end(std::uint64_t sequence) noexcept;
std::uint64_t take_end(std::uint64_t sequence) noexcept;

namespace detail {
// In a forked child: the parent's entries mean nothing here, and a thread that does not exist here
// may hold the lock.
void forget_ends() noexcept;
}  // namespace detail

}  // namespace sonde::record
