// Functions of other folders that are called where a step or an epoch of ours ends. They run in the
// middle of an event, so they may only take note.
#pragma once

#include <cstdint>

#include "engine/hook/last_step.h"
#include "engine/record/lane.h"

namespace sonde::hook {

// A step with GPU time ends at this event.
using StepEnd = void (*)(std::uint32_t event) noexcept;

struct EndedEpoch {
  const record::Lane& stack;
  std::uint64_t sequence = 0;
  std::int64_t index = 0;  // kNoIndex where there is none
  const LastStep& steps;   // the counts of this epoch's steps, not yet reset
};
using EpochEnd = void (*)(const EndedEpoch& epoch) noexcept;

struct Listeners {
  StepEnd step_end = nullptr;
  EpochEnd epoch_end = nullptr;
};
inline constinit Listeners g_listeners;

}  // namespace sonde::hook
