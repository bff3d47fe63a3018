// The one log function. What the engine has to say goes to a handler the host installs (Python's
// logging). A message is logged once per session and key; repeats are dropped.
#pragma once

#include <string>
#include <string_view>

namespace sonde::base {

enum class LogLevel { kInfo, kWarning };

using LogHandler = void (*)(LogLevel, std::string_view logger, std::string_view text);

// Called while setting up; nullptr restores the default, a line on standard error. A handler may
// block: the threads of the profiler do not wait for it.
void set_log_handler(LogHandler handler) noexcept;

// Any thread but a signal handler. `topic` is the logger without the name of the face: "flush".
// `key` names the kind of trouble; only the first message with a key is logged. The message ends
// with what to do: in the words of the face, otherwise `advice`, otherwise the general words
// (advice.h).
void log_once(LogLevel level, std::string_view topic, std::string_view key, std::string text,
              std::string_view advice = {}) noexcept;

// Any thread. A warning about an exception that was caught, "<what failed>: <the exception>; <what
// to do>". Counted under `place` as swallowed, also where there is no memory for the message.
void log_failure(std::string_view place, std::string_view key, std::string_view what_failed,
                 std::string_view exception, std::string_view advice = {}) noexcept;

// Forgets which keys were logged (a new session).
void reset_log() noexcept;
// In a forked child: the lock may have been held by a thread that is not there any more.
void reset_log_after_fork() noexcept;

}  // namespace sonde::base
