// Which levels of a training loop are open. Hooks ask before they open a level, and sonde/unseen.py
// asks whether any loop is on record.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "engine/base/level_names.h"
#include "engine/hook/level.h"
#include "engine/hook/training.h"
#include "engine/record/names.h"
#include "engine/record/peek.h"
#include "engine/session/engine.h"
#include "python/native/boundaries.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/names.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

// is_level_open("epoch" | "step" | "validation")
PyObject* is_level_open(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  const std::string_view level(text);
  if (level != base::kEpoch && level != base::kStep && level != base::kValidation) {
    PyErr_SetString(PyExc_ValueError, "a level is epoch, step or validation");
    return nullptr;
  }
  bool open = false;
  with_training([&](Training& training, Here here) {
    open = training.owned(here.stack, level == base::kEpoch  ? Training::Level::kEpoch
                                      : level == base::kStep ? Training::Level::kStep
                                                             : Training::Level::kValidation);
  });
  return PyBool_FromLong(open ? 1 : 0);
}

// is_open(name): hooks ask before they open a level that the program may have open already.
PyObject* is_open(PyObject*, PyObject* name) {
  if (!PyUnicode_Check(name)) {
    PyErr_SetString(PyExc_TypeError, "is_open(name): a str is needed");
    return nullptr;
  }
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  const std::uint32_t id = name_id(name);
  return PyBool_FromLong(stack != nullptr && id != 0 && hook::open_level(*stack, id) != 0);
}

constexpr std::string_view kLevels[] = {base::kEpoch,      base::kStep,    base::kBatch,
                                        base::kValidation, base::kPredict, base::kTrain};

// any_loop_open(): does any stack have a level of a loop open?
PyObject* any_loop_open(PyObject*, PyObject*) {
  bool found = false;
  record::see_open_scopes([&](const record::PeekedScope& open) {
    found =
        found || std::ranges::find(kLevels, record::name_text(open.name())) != std::end(kLevels);
  });
  return PyBool_FromLong(found ? 1 : 0);
}

// any_loop_recorded(): is a level of a loop among the spans of the session, closed or open?
PyObject* any_loop_recorded(PyObject*, PyObject*) {
  settle_hooks();
  session::Engine& engine = session::Engine::instance();
  Py_BEGIN_ALLOW_THREADS engine.flush();
  Py_END_ALLOW_THREADS model::Batch batch;
  engine.read_trace(batch, session::MarksAs::kCount);
  const bool found = std::ranges::any_of(batch.spans, [](const model::Span& span) {
    return std::ranges::find(kLevels, span.name) != std::end(kLevels);
  });
  return PyBool_FromLong(found ? 1 : 0);
}

PyMethodDef g_functions[] = {
    {"is_open", is_open, METH_O,
     "is_open(name)\n--\n\nWhether a scope of this name is open here; a batch is a step."},
    {"is_level_open", is_level_open, METH_O,
     "is_level_open(level)\n--\n\nWhether an \"epoch\", a \"step\" or a \"validation\" that no "
     "hook inferred is open here."},
    {"any_loop_open", any_loop_open, METH_NOARGS,
     "any_loop_open()\n--\n\nWhether an epoch, step, batch, validation, predict or train is open "
     "on any thread."},
    {"any_loop_recorded", any_loop_recorded, METH_NOARGS,
     "any_loop_recorded()\n--\n\nThe same for the spans of the session, as far as they are held."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_level_functions(PyObject* scopes) {
  return PyModule_AddFunctions(scopes, g_functions) == 0;
}

}  // namespace sonde::native
