// What the rest of the extension has to know of the framework hooks.
#pragma once

#include "engine/base/placement.h"
#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// While it lives, fetches from a loader open no step: the caller has one of its own.
class StepClaim {
 public:
  explicit StepClaim(bool wanted) noexcept;
  ~StepClaim();
  StepClaim(const StepClaim&) = delete;
  StepClaim& operator=(const StepClaim&) = delete;

 private:
  hook::Training* training_ = nullptr;
};

// The trace is about to be read: what is not certain of the tree stays as it is. `last`: the
// session ends, and what can still be concluded is.
void settle_hooks(bool last = false) noexcept;

// What speaks for an evaluation to come: gradients are off, or the last model is in evaluation
// mode, which is asked for `fresh` passes alone. A trainer that says when it evaluates may fetch
// before it has set the model to training again.
SONDE_APART hook::Hint evaluation_hint(const record::Lane& stack, bool fresh) noexcept;

}  // namespace sonde::native
