// Marks a thread that serves sinks: the drain thread, the delivery thread, or a thread that drains
// in their place. A flush() that a sink calls there would wait for itself, so it returns at once.
#pragma once

namespace sonde::session {

inline thread_local bool t_serves_sinks = false;

class Serving {
 public:
  Serving() noexcept { t_serves_sinks = true; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { t_serves_sinks = false; }
};

}  // namespace sonde::session
