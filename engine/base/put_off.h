// Ending the session from code of the host that the profiler has called: a log handler, a sink. On
// the thread that calls it a batch may be half written, or the host may hold a lock that the end
// needs. So the end is put off until the call has returned.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace sonde::base {

inline thread_local bool t_calls_host = false;

// This thread of the profiler calls the host's code while one of these lives, or, with false, does
// not for a while.
class CallsHost {
 public:
  explicit CallsHost(bool calls = true) noexcept : before_(std::exchange(t_calls_host, calls)) {}
  CallsHost(const CallsHost&) = delete;
  CallsHost& operator=(const CallsHost&) = delete;
  ~CallsHost() { t_calls_host = before_; }

 private:
  bool before_;
};

// True where this thread calls the host's code: `end` is kept.
bool put_off(std::function<void()> end);
// What put_off() has kept on this thread, in its order. It is not kept any longer.
std::vector<std::function<void()>> take_put_off() noexcept;
// Calls what put_off() has kept on this thread. To be called with no lock held. What it throws is
// counted.
void run_put_off() noexcept;
bool has_put_off() noexcept;

}  // namespace sonde::base
