// Ending the session from code of the host that the profiler has called: a log handler, a sink. On
// the thread that calls it a batch may be half written, or the host may hold a lock that the end
// needs. So the end is put off until the call has returned.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace sonde::base {

inline thread_local bool t_calls_host = false;

// While this object exists, the thread counts as running the host's code; constructed with false,
// it counts as not running it.
class CallsHost {
 public:
  explicit CallsHost(bool calls = true) noexcept : before_(std::exchange(t_calls_host, calls)) {}
  CallsHost(const CallsHost&) = delete;
  CallsHost& operator=(const CallsHost&) = delete;
  ~CallsHost() { t_calls_host = before_; }

 private:
  bool before_;
};

// True if this thread is running the host's code: then `end` is kept for run_put_off(). False:
// nothing happens.
bool put_off(std::function<void()> end);
// Returns the calls that put_off() kept on this thread, oldest first, and clears the list.
std::vector<std::function<void()>> take_put_off() noexcept;
// Calls the functions that put_off() kept on this thread. The caller must hold no lock. Their
// exceptions are counted.
void run_put_off() noexcept;
bool has_put_off() noexcept;

}  // namespace sonde::base
