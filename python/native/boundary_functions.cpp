// The functions about epochs that python/sonde/snapshots calls.
#include <cstdint>

#include "python/native/boundaries.h"
#include "python/native/module.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

PyObject* set_listeners(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "set_listeners(on_epoch, on_gradients, on_trained, on_gone)");
    return nullptr;
  }
  const bool wanted = args[0] != Py_None;
  Boundaries::instance().listen(wanted ? args[0] : nullptr, wanted ? args[1] : nullptr);
  KnownModels::instance().listen(wanted ? args[2] : nullptr, wanted ? args[3] : nullptr);
  Py_RETURN_NONE;
}

PyObject* end_open_epochs(PyObject*, PyObject*) {
  Boundaries::instance().end_all();
  Py_RETURN_NONE;
}

PyObject* measure_again(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.steps().measure_again(); });
  Py_RETURN_NONE;
}

PyObject* current_epoch(PyObject*, PyObject*) {
  record::ThreadState* thread = record::this_thread();
  const record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  const EpochEnd epoch = stack != nullptr ? Boundaries::innermost_epoch(*stack) : EpochEnd{};
  if (epoch.sequence == 0) Py_RETURN_NONE;
  const Ref index(number_or_none(epoch.index, record::kNoIndex));
  return index ? Py_BuildValue("KO", static_cast<unsigned long long>(epoch.sequence), index.get())
               : nullptr;
}

PyObject* stack_number(PyObject*, PyObject*) {
  std::uint64_t token = 0;
  with_training([&](Training&, Here here) { token = Boundaries::stack_token(here.stack); });
  return PyLong_FromUnsignedLongLong(token);
}

PyMethodDef g_functions[] = {
    {"set_listeners", as_method(set_listeners), METH_FASTCALL,
     "set_listeners(on_epoch, on_gradients, on_trained, on_gone)\n--\n\n"
     "The callbacks that snapshots need; None for all ends it. See the types."},
    {"end_open_epochs", end_open_epochs, METH_NOARGS,
     "end_open_epochs()\n--\n\nTells the end of every epoch that is still open, on any thread."},
    {"measure_again", measure_again, METH_NOARGS,
     "measure_again()\n--\n\nThe gradients measured in this epoch were dropped: those of the next "
     "step of every optimizer are measured."},
    {"current_epoch", current_epoch, METH_NOARGS,
     "current_epoch()\n--\n\nSequence and index of the epoch that is open here, or None."},
    {"stack_number", stack_number, METH_NOARGS,
     "stack_number()\n--\n\nA number for the running thread or task, never used again; 0: it is "
     "not "
     "recorded."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_boundaries(PyObject* snapshots) {
  return PyModule_AddFunctions(snapshots, g_functions) == 0;
}

}  // namespace sonde::native
