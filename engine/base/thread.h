// Starts the engine's threads in the host's process.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "engine/base/status.h"

namespace sonde::base {

inline thread_local bool t_does_engine_work = false;

// This thread does the profiler's work while one of these lives. It must not call the host's code
// that may block: what it logs is handed over on another thread (host_thread.h).
class EngineWork {
 public:
  EngineWork() noexcept : before_(std::exchange(t_does_engine_work, true)) {}
  EngineWork(const EngineWork&) = delete;
  EngineWork& operator=(const EngineWork&) = delete;
  ~EngineWork() { t_does_engine_work = before_; }

 private:
  bool before_;
};

// The new thread does nothing but the profiler's work. Signals are for the host's threads: the new
// one blocks all of them except faults (SIGSEGV and the like), because a blocked fault kills the
// process. The caller's mask does not change. `name` has at most 15 letters. Where no thread can be
// started, `thread` is left as it is.
Status start_thread(std::thread& thread, const char* name, std::function<void()> work);
// As start_thread, for a thread that is never joined: `work` owns what it uses, or uses what lives
// as long as the process.
Status start_detached_thread(const char* name, std::function<void()> work);

}  // namespace sonde::base
