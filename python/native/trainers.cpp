// What the hooks of trainers say: frameworks that have epochs and steps of their own.
#include "engine/hook/level.h"
#include "engine/hook/training.h"

#include <string_view>

#include "python/native/hooks.h"
#include "python/native/names.h"
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

PyObject* announced_begins(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) { training.begin_announced(here); });
  Py_RETURN_NONE;
}

PyObject* announced_ends(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.end_announced(); });
  Py_RETURN_NONE;
}

// level_open("epoch" | "step" | "validation")
PyObject* level_open(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  const std::string_view level(text);
  if (level != "epoch" && level != "step" && level != "validation") {
    PyErr_SetString(PyExc_ValueError, "a level is epoch, step or validation");
    return nullptr;
  }
  bool open = false;
  with_training([&](Training& training, Here here) {
    open = training.owned(here.stack, level == "epoch"  ? Training::Level::kEpoch
                                      : level == "step" ? Training::Level::kStep
                                                        : Training::Level::kValidation);
  });
  return PyBool_FromLong(open ? 1 : 0);
}

// scope_open(name): hooks ask before they open a level that somebody else may have.
PyObject* scope_open(PyObject*, PyObject* name) {
  if (!PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, "scope_open(name): a str is needed");
    return nullptr;
  }
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  const std::uint32_t id = name_id(name);
  return PyBool_FromLong(stack != nullptr && id != 0 && hook::open_level(*stack, id) != 0);
}

PyMethodDef g_functions[] = {
    {"scope_open", scope_open, METH_O,
     "scope_open(name)\n--\n\nWhether a scope of this name is open here; a batch is a step."},
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
    {"announced_begins", announced_begins, METH_NOARGS,
     "announced_begins()\n--\n\nA trainer runs from here on that opens its epochs, steps and "
     "validations itself: none is inferred."},
    {"announced_ends", announced_ends, METH_NOARGS, "announced_ends()\n--\n\nIt has ended."},
    {"level_open", level_open, METH_O,
     "level_open(level)\n--\n\nWhether an \"epoch\", a \"step\" or a \"validation\" that no hook "
     "inferred is open here."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_trainers(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
