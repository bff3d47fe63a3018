// Ending a session on the thread that moves its records. A log handler or a sink that is called
// there may want to end the session: a batch is half written at that moment, and the thread would
// wait for itself. So the end is put off until the records are moved.
#pragma once

#include <functional>
#include <utility>

namespace sonde::session {

inline thread_local bool t_drains = false;

// This thread moves records while one of these lives, or for a moment does not.
class Draining {
 public:
  explicit Draining(bool drains = true) noexcept : before_(std::exchange(t_drains, drains)) {}
  Draining(const Draining&) = delete;
  Draining& operator=(const Draining&) = delete;
  ~Draining() { t_drains = before_; }

 private:
  bool before_;
};

// True where this thread moves records: `end` is kept, unless another one is kept already.
bool put_off(std::function<void()> end);
// What put_off() has kept on this thread; empty: nothing. It is not kept any longer.
std::function<void()> take_put_off() noexcept;

}  // namespace sonde::session
