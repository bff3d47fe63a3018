// What outlives sessions: how far the rings were read, the spans that trace() shows, and what was
// lost before.
#pragma once

#include <mutex>

#include "engine/record/lane.h"
#include "engine/session/drainer.h"
#include "engine/session/memory.h"

namespace sonde::session {

struct Shared {
  // Guards the other two. Recording a scope or a mark does not take it. A thread that has it must
  // not wait for the GIL: threads that hold the GIL take it.
  std::mutex lock;
  Drainer drainer;
  Memory memory;
  // Counted before the last session ended. Written while no session is open.
  record::Losses lost_earlier;
};

}  // namespace sonde::session
