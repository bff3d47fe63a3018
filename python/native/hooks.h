// What the rest of the extension needs of the framework hooks.
#pragma once

#include "engine/base/placement.h"
#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// While it lives, fetches from a loader open no step: the caller opens the step itself.
class StepClaim {
 public:
  explicit StepClaim(bool wanted) noexcept;
  ~StepClaim();
  StepClaim(const StepClaim&) = delete;
  StepClaim& operator=(const StepClaim&) = delete;

 private:
  hook::Training* training_ = nullptr;
};

// To be called before the trace is read: spans whose place is not certain stay where they are.
// `last`: the session ends, and what can still be concluded about them is concluded.
void settle_hooks(bool last = false) noexcept;

// Signs that an evaluation begins: gradients are off, or the last model is in evaluation mode. The
// model is asked only for `fresh` passes, and not where a trainer announces its epochs: it may
// fetch before it has set the model back to training mode.
SONDE_APART hook::Hint evaluation_hint(const record::Lane& stack, bool fresh) noexcept;

}  // namespace sonde::native
