#include "python/native/hooks.h"

#include <cstdint>

#include "engine/hook/level.h"
#include "engine/record/journal.h"
#include "python/native/boundaries.h"
#include "python/native/module.h"
#include "python/native/modules.h"
#include "python/native/stack.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

using hook::Training;

PyObject* begin_session(PyObject*, PyObject*) {
  Training::begin_session();
  Py_RETURN_NONE;
}

PyObject* set_epoch_steps(PyObject*, PyObject* number) {
  const unsigned long steps = PyLong_AsUnsignedLong(number);
  if (steps == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) return nullptr;
  Training::set_steps_per_epoch(static_cast<std::uint32_t>(steps));
  Py_RETURN_NONE;
}

PyObject* finish_all(PyObject*, PyObject*) {
  if (record::ThreadState* thread = record::this_thread()) Training::finish_all(*thread);
  Boundaries::tell_epoch_ends();
  Py_RETURN_NONE;
}

PyObject* steps_taken(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Training::steps_taken());
}

PyObject* steps_skipped(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Training::steps_skipped());
}

PyMethodDef g_functions[] = {
    {"begin_session", begin_session, METH_NOARGS,
     "begin_session()\n--\n\nA session begins: options are the usual ones, counts are zero."},
    {"set_epoch_steps", set_epoch_steps, METH_O,
     "set_epoch_steps(number)\n--\n\nHow many steps make an epoch where there is no loader."},
    {"finish_all", finish_all, METH_NOARGS,
     "finish_all()\n--\n\nEnds everything that the hooks have opened, on every thread."},
    {"steps_taken", steps_taken, METH_NOARGS,
     "steps_taken()\n--\n\nHow many steps the optimizers have taken in this session."},
    {"steps_skipped", steps_skipped, METH_NOARGS,
     "steps_skipped()\n--\n\nHow many steps mixed precision has skipped in this session."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

hook::Hint evaluation_hint(const record::Lane& stack, bool fresh) noexcept {
  const KeepError keep;
  if (!gradients_on()) return hook::Hint::kGradientsOff;
  if (!fresh || hook::epochs_announced(stack)) return hook::Hint::kNone;
  return last_model_evaluates(stack) ? hook::Hint::kModelInEval : hook::Hint::kNone;
}

StepClaim::StepClaim(bool wanted) noexcept {
  if (!wanted || !hooks_in_place()) return;
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr) return;
  training_ = &Training::of({*thread, *stack});
  training_->claim_steps(true);
}

StepClaim::~StepClaim() {
  if (training_ != nullptr) training_->claim_steps(false);
}

void settle_hooks(bool last) noexcept {
  if (record::Journal::instance().lane_count() == 0) return;  // nothing was ever recorded
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return;
  if (last) {
    Training::conclude_all(*thread);
  } else {
    Training::settle_all(*thread);
  }
}

bool add_training_loops(PyObject* loops) { return PyModule_AddFunctions(loops, g_functions) == 0; }

}  // namespace sonde::native
