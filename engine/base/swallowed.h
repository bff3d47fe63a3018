// Errors that were caught and after which the work went on, counted by the place that caught them.
// The counters of a session show them: a message is shown once per session, and the count says how
// often it happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sonde::base {

struct SwallowedErrors {
  std::uint64_t count = 0;
  std::map<std::string, std::uint64_t> by_place;
};

// Places that are counted by name. Errors of further ones are counted as "other".
inline constexpr std::size_t kMaxSwallowingPlaces = 64;

// Any thread but a signal handler. `place` names the part that failed: "spool", "hooks.torch".
void note_swallowed(std::string_view place) noexcept;
SwallowedErrors swallowed_errors();

// A new session counts from zero.
void reset_swallowed() noexcept;
// In a forked child: a thread that does not exist there may have held the lock.
void reset_swallowed_after_fork() noexcept;

}  // namespace sonde::base
