// Marks a thread that serves sinks: the drain thread, the thread of a sink (delivery.h), or a
// thread that does their work because they could not be started. A flush() that a sink calls there
// would wait for itself, so it returns at once.
#pragma once

#include <utility>

namespace sonde::session {

inline thread_local bool t_serves_sinks = false;

class Serving {
 public:
  Serving() noexcept : before_(std::exchange(t_serves_sinks, true)) {}
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { t_serves_sinks = before_; }

 private:
  bool before_;  // a sink may end the session, which then serves the others on this thread
};

}  // namespace sonde::session
