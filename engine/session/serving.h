// Marks a thread that serves sinks: the drain thread, a delivery thread, or a thread that drains in
// their place. A flush() that a sink calls there would wait for itself, so it returns at once.
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
  bool before_;  // a sink on the delivery thread may end the session, which serves the others
};

}  // namespace sonde::session
