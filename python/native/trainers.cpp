// What the hooks of trainers say. A trainer is the loop of a framework: it knows its epochs and
// steps.
#include <type_traits>

#include "engine/hook/training.h"
#include "python/native/boundaries.h"
#include "python/native/module.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

// A function without arguments that only tells the training loop of an event.
template <auto kEvent>
PyObject* tell(PyObject*, PyObject*) {
  with_training([](Training& training, Here here) {
    if constexpr (std::is_invocable_v<decltype(kEvent), Training&, Here>) {
      (training.*kEvent)(here);
    } else {
      (training.*kEvent)();
    }
  });
  Py_RETURN_NONE;
}

PyObject* skip_step(PyObject*, PyObject* optimizer) {
  with_training([&](Training& training, Here here) { training.skip_step(here, optimizer); });
  Py_RETURN_NONE;
}

PyObject* begin_step(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  with_training([&](Training& training, Here here) { training.begin_step(here, number); });
  Py_RETURN_NONE;
}

PyObject* end_epoch(PyObject*, PyObject*) {
  Boundaries::instance().end_innermost();
  Py_RETURN_NONE;
}

PyObject* begin_turn(PyObject*, PyObject* last) {
  with_training([&](Training& training, Here) {
    training.begin_turn(training.step_index(), last == Py_True);
  });
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"note_step_over", tell<&Training::step_over>, METH_NOARGS,
     "note_step_over()\n--\n\nThe optimizer has taken the step that is open."},
    {"skip_step", skip_step, METH_O,
     "skip_step(optimizer)\n--\n\nMixed precision has skipped the step of this optimizer."},
    {"begin_step", begin_step, METH_O,
     "begin_step(index)\n--\n\nBegins a step with this number; a step that a fetch has opened "
     "gets the number."},
    {"end_step", tell<&Training::end_step>, METH_NOARGS,
     "end_step()\n--\n\nEnds the step that is open, if there is one."},
    {"begin_trainer", tell<&Training::begin_trainer>, METH_NOARGS,
     "begin_trainer()\n--\n\nA trainer runs from here on: it opens the epochs, and there is no "
     "step outside them."},
    {"end_trainer", tell<&Training::end_trainer>, METH_NOARGS,
     "end_trainer()\n--\n\nThe trainer has ended."},
    {"end_closure", tell<&Training::end_closure>, METH_NOARGS,
     "end_closure()\n--\n\nThe closure a trainer handed to an optimizer has run: the optimizer "
     "step itself begins."},
    {"begin_announced", tell<&Training::begin_announced>, METH_NOARGS,
     "begin_announced()\n--\n\nA trainer runs from here on that opens its epochs, steps "
     "and validations itself: none is inferred."},
    {"end_announced", tell<&Training::end_announced>, METH_NOARGS,
     "end_announced()\n--\n\nThe trainer has ended."},
    {"end_epoch", end_epoch, METH_NOARGS,
     "end_epoch()\n--\n\nThe innermost open epoch is over for snapshots, although its "
     "scope "
     "stays open."},
    {"begin_turn", begin_turn, METH_O,
     "begin_turn(last)\n--\n\nThe loop goes on with the batch that was just fetched. last: the "
     "epoch "
     "ends with it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_trainers(PyObject* loops) { return PyModule_AddFunctions(loops, g_functions) == 0; }

}  // namespace sonde::native
