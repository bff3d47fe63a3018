// What the hooks of trainers say: frameworks that have epochs and steps of their own.
#include "engine/hook/training.h"
#include "python/native/boundaries.h"
#include "python/native/module.h"
#include "python/native/training_call.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

PyObject* step_over(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.step_over(); });
  Py_RETURN_NONE;
}

PyObject* step_skipped(PyObject*, PyObject* optimizer) {
  with_training([&](Training& training, Here here) { training.skip_step(here, optimizer); });
  Py_RETURN_NONE;
}

PyObject* step_begins(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  with_training([&](Training& training, Here here) { training.begin_step(here, number); });
  Py_RETURN_NONE;
}

PyObject* step_ends(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) { training.end_step(here); });
  Py_RETURN_NONE;
}

PyObject* trainer_begins(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) { training.begin_trainer(here); });
  Py_RETURN_NONE;
}

PyObject* trainer_ends(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.end_trainer(); });
  Py_RETURN_NONE;
}

PyObject* closure_ends(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) { training.end_closure(here); });
  Py_RETURN_NONE;
}

PyObject* explicit_trainer_begins(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) { training.begin_announced(here); });
  Py_RETURN_NONE;
}

PyObject* explicit_trainer_ends(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.end_announced(); });
  Py_RETURN_NONE;
}

PyObject* epoch_over(PyObject*, PyObject*) {
  Boundaries::instance().end_innermost();
  Py_RETURN_NONE;
}

PyObject* set_last_batch(PyObject*, PyObject* last) {
  with_training([&](Training& training, Here) {
    training.begin_turn(training.step_index(), last == Py_True);
  });
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"step_over", step_over, METH_NOARGS, "step_over()\n--\n\nThe step under way has been taken."},
    {"step_skipped", step_skipped, METH_O,
     "step_skipped(optimizer)\n--\n\nMixed precision has skipped the step of this optimizer."},
    {"step_begins", step_begins, METH_O,
     "step_begins(index)\n--\n\nA step with this number begins, or is the one that a fetch has "
     "opened."},
    {"step_ends", step_ends, METH_NOARGS,
     "step_ends()\n--\n\nThe step that is open, if one is, ends here."},
    {"trainer_begins", trainer_begins, METH_NOARGS,
     "trainer_begins()\n--\n\nA trainer runs from here on: epochs are its own, and there is no "
     "step outside of them."},
    {"trainer_ends", trainer_ends, METH_NOARGS, "trainer_ends()\n--\n\nIt has ended."},
    {"closure_ends", closure_ends, METH_NOARGS,
     "closure_ends()\n--\n\nThe closure a trainer handed to an optimizer has run: the optimizer "
     "step itself begins."},
    {"explicit_trainer_begins", explicit_trainer_begins, METH_NOARGS,
     "explicit_trainer_begins()\n--\n\nA trainer runs from here on that opens its epochs, steps "
     "and "
     "validations itself: none is inferred."},
    {"explicit_trainer_ends", explicit_trainer_ends, METH_NOARGS,
     "explicit_trainer_ends()\n--\n\nIt has ended."},
    {"epoch_over", epoch_over, METH_NOARGS,
     "epoch_over()\n--\n\nThe epoch that is open here has ended, although its scope stays open."},
    {"set_last_batch", set_last_batch, METH_O,
     "set_last_batch(last)\n--\n\nWhether the epoch ends with the batch that was just fetched."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_trainers(PyObject* loops) { return PyModule_AddFunctions(loops, g_functions) == 0; }

}  // namespace sonde::native
