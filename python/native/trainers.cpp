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

PyObject* step_skipped(PyObject*, PyObject* optimizer) {
  with_training([&](Training& training, Here here) { training.skip_step(here, optimizer); });
  Py_RETURN_NONE;
}

PyObject* open_step(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  with_training([&](Training& training, Here here) { training.begin_step(here, number); });
  Py_RETURN_NONE;
}

PyObject* announce_epoch_end(PyObject*, PyObject*) {
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
    {"mark_step_done", tell<&Training::step_over>, METH_NOARGS,
     "mark_step_done()\n--\n\nThe optimizer has taken the step that is open."},
    {"step_skipped", step_skipped, METH_O,
     "step_skipped(optimizer)\n--\n\nMixed precision has skipped the step of this optimizer."},
    {"open_step", open_step, METH_O,
     "open_step(index)\n--\n\nBegins a step with this number; a step that a fetch has opened gets "
     "the number."},
    {"close_step", tell<&Training::end_step>, METH_NOARGS,
     "close_step()\n--\n\nEnds the step that is open, if there is one."},
    {"trainer_begins", tell<&Training::begin_trainer>, METH_NOARGS,
     "trainer_begins()\n--\n\nA trainer runs from here on: it opens the epochs, and there is no "
     "step outside them."},
    {"trainer_ends", tell<&Training::end_trainer>, METH_NOARGS,
     "trainer_ends()\n--\n\nThe trainer has ended."},
    {"closure_ends", tell<&Training::end_closure>, METH_NOARGS,
     "closure_ends()\n--\n\nThe closure a trainer handed to an optimizer has run: the optimizer "
     "step itself begins."},
    {"explicit_trainer_begins", tell<&Training::begin_announced>, METH_NOARGS,
     "explicit_trainer_begins()\n--\n\nA trainer runs from here on that opens its epochs, steps "
     "and validations itself: none is inferred."},
    {"explicit_trainer_ends", tell<&Training::end_announced>, METH_NOARGS,
     "explicit_trainer_ends()\n--\n\nThe trainer has ended."},
    {"announce_epoch_end", announce_epoch_end, METH_NOARGS,
     "announce_epoch_end()\n--\n\nThe innermost open epoch is over for snapshots, although its "
     "scope "
     "stays open."},
    {"set_last_batch", set_last_batch, METH_O,
     "set_last_batch(last)\n--\n\nWhether the epoch ends with the batch that was just fetched."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_trainers(PyObject* loops) { return PyModule_AddFunctions(loops, g_functions) == 0; }

}  // namespace sonde::native
