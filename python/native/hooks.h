// What the rest of the extension has to know of the framework hooks.
#pragma once

#include "engine/record/lane.h"
#include "python/native/python.h"

namespace sonde::hook {
class Training;
}

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

// What hooks have seen but not recorded yet is recorded: somebody reads, or the session ends.
void settle_hooks() noexcept;

// The GPU's clock starts when the program has begun to use the GPU, never before.
void look_for_gpu() noexcept;

// Is what comes about to evaluate? Gradients are off, or the last model is in evaluation mode. A
// trainer that says when it evaluates may fetch before it has set the model to training again.
bool looks_like_eval(const record::Lane& stack) noexcept;

bool add_hooks(PyObject* module);
bool add_loader(PyObject* module);
bool add_trainers(PyObject* module);

}  // namespace sonde::native
