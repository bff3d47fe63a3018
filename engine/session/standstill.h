// Recording stands still while one of these lives: the gate is closed and no thread is past it.
// Threads that want to record meanwhile record nothing, so it must be short (less than a
// millisecond). Several threads may have one at the same time; the gate is as it was before once
// the last of them is gone.
#pragma once

#include "engine/record/lane.h"

namespace sonde::session {

class Standstill {
 public:
  Standstill() noexcept { record::hold_gate_closed(); }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;
  ~Standstill() { record::release_gate(); }
};

}  // namespace sonde::session
