// What the rest of the extension has to know of the framework hooks.
#pragma once

#include "engine/hook/training.h"
#include "python/native/modules.h"
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

// What is not certain of the tree stays as it is: somebody reads. `last`: the session ends, and
// what can still be concluded is.
void settle_hooks(bool last = false) noexcept;

// The GPU's clock starts when the program has begun to use the GPU, never before.
void look_for_gpu() noexcept;

// The stream that torch works on now; false when that is not known. With the GIL.
bool current_cuda_stream(int device, void** stream) noexcept;

// Are gradients on, as far as torch says?
bool gradients_on() noexcept;
// Does autograd run on this thread right now?
bool in_backward_thread() noexcept;

// What speaks for an evaluation to come: gradients are off, or the last model is in evaluation
// mode, which is asked for `fresh` passes alone. A trainer that says when it evaluates may fetch
// before it has set the model to training again.
SONDE_APART hook::Hint evaluation_hint(const record::Lane& stack, bool fresh) noexcept;

bool add_hooks(PyObject* module);
bool add_loader(PyObject* module);
bool add_optimizers(PyObject* module);
bool add_trainers(PyObject* module);
bool add_own_loops(PyObject* module);
bool add_device_queue(PyObject* module);
bool add_jit_calls(PyObject* module);

}  // namespace sonde::native
