// Recording stands still while one of these lives: the gate is closed and no thread is past it.
// Threads that want to record meanwhile record nothing, so it must be short (less than a
// millisecond). At its end the gate is as it was before.
#pragma once

#include "engine/record/lane.h"

namespace sonde::session {

class Standstill {
 public:
  Standstill() noexcept : was_open_(record::gate_open()) { record::close_gate(); }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;
  ~Standstill() {
    if (was_open_) record::open_gate();
  }
  // Nothing is recorded any more: the gate stays closed.
  void stay() noexcept { was_open_ = false; }

 private:
  bool was_open_;
};

}  // namespace sonde::session
