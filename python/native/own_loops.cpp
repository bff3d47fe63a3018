// The program's own loops in frameworks other than torch: what their hooks, in Python, have seen of
// a forward, a backward and an update goes to the training loop from here.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/json_writer.h"
#include "engine/base/placement.h"
#include "engine/hook/names.h"
#include "engine/hook/training.h"
#include "engine/record/journal.h"
#include "engine/record/names.h"
#include "engine/session/engine.h"
#include "python/native/exceptions.h"
#include "python/native/hooks.h"
#include "python/native/modules.h"
#include "python/native/own_loops.h"
#include "python/native/session.h"
#include "python/native/symbolic.h"
#include "python/native/training_call.h"

namespace sonde::native {

SONDE_HOT_DATA PyTypeObject* g_symbolic_type = nullptr;

namespace {

using hook::Here;
using hook::Training;

// What was begun and has not ended. Ended by number, from Python, on the thread that began it.
struct Begun {
  record::ScopeHandle scope;    // of a forward or backward
  bool backward = false;        // which of them
  std::uint64_t optimizer = 0;  // of an update
};
std::unordered_map<std::uint64_t, Begun> g_begun;

PyObject* keep(const Begun& begun) {
  static std::uint64_t number = 0;
  if (!begun.scope && begun.optimizer == 0) return PyLong_FromLong(0);
  g_begun.emplace(++number, begun);
  return PyLong_FromUnsignedLongLong(number);
}

bool take(PyObject* number, Begun& out) {
  const auto found = g_begun.find(PyLong_AsUnsignedLongLong(number));
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (found == g_begun.end()) return false;
  out = found->second;
  g_begun.erase(found);
  return true;
}

// Interned JSON members with one more: `"timing":"dispatch"`.
std::uint32_t with_dispatch(std::uint32_t attrs) {
  static std::unordered_map<std::uint32_t, std::uint32_t> known;
  if (const auto found = known.find(attrs); found != known.end()) return found->second;
  std::string text(record::name_text(attrs));
  if (!text.empty()) text += ',';
  const std::uint32_t both = record::intern(text + R"("timing":"dispatch")");
  known[attrs] = known[both] = both;
  return both;
}

// The innermost scope was just opened. On a device that works by itself its time, and that of our
// own step and epoch around it, is that of handing work over. (Steps and epochs of the program's
// own may wait for the device.) An update that is a whole step is called so.
void describe(const Training& training, Here here, bool dispatch, std::uint32_t renamed) {
  const hook::Names& name = hook::names();
  const std::uint32_t depth = here.stack.depth.load(std::memory_order_relaxed);
  for (std::uint32_t slot = depth; slot-- > 0;) {
    record::OpenScope& scope = here.stack.stack[slot];
    const bool innermost = slot + 1 == depth;
    if (innermost && renamed != 0 && scope.name == name.optimizer_step) scope.name = renamed;
    if (dispatch && (innermost || training.opened(scope.sequence)))
      scope.static_attrs = with_dispatch(scope.static_attrs);
  }
}

// pass_begins(what, dispatch, owned): "forward" or "backward".
PyObject* pass_begins(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "pass_begins(what, dispatch, owned)");
    return nullptr;
  }
  Begun begun;
  begun.backward = PyUnicode_CompareWithASCIIString(args[0], "backward") == 0;
  hook::Forward forward;
  forward.owned = args[2] == Py_True ? hook::Owned::kYes : hook::Owned::kUnknown;
  with_training([&](Training& training, Here here) {
    begun.scope =
        begun.backward ? training.begin_backward(here) : training.begin_forward(here, forward);
    if (begun.scope) describe(training, here, args[1] == Py_True, 0);
  });
  return keep(begun);
}

// pass_ends(number, exception)
PyObject* pass_ends(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Begun begun;
  if (count != 2 || !take(args[0], begun) || !begun.scope) Py_RETURN_NONE;
  const bool failed = args[1] != Py_None;
  const std::string error = failed ? exception_text(args[1]).members() : std::string();
  with_training([&](Training& training, Here here) {
    if (begun.backward) {
      training.end_backward(here, begun.scope, failed, error);
    } else if (training.end_forward(here, begun.scope, failed, error)) {
      training.cannot_watch(begun.scope.sequence);
    }
  });
  Py_RETURN_NONE;
}

// What a span says of an optimizer of this class.
std::uint32_t optimizer_attrs(PyTypeObject* type) {
  static std::unordered_map<PyTypeObject*, std::uint32_t> all;
  if (const auto known = all.find(type); known != all.end()) return known->second;
  base::JsonWriter members;
  members.raw("\"optimizer\":");
  members.string(class_name(type));
  Py_INCREF(type);
  return all[type] = record::intern(members.view());
}

std::uint32_t compiled_step() {
  static const std::uint32_t name = record::intern("compiled_step");
  return name;
}

// `source`: the optimizer, or the compiled function. Only compared. `whole`: what a call is called
// that is all there is of a step; 0: it is an optimizer's.
std::uint64_t begin_update(PyObject* source, std::uint32_t whole, bool dispatch) noexcept {
  const std::uint32_t attrs = whole != 0 ? 0 : optimizer_attrs(Py_TYPE(source));
  std::uint64_t serial = 0;
  with_training([&](Training& training, Here here) {
    serial = training.begin_optimizer(here, source, whole != 0, attrs);
    if (serial != 0) describe(training, here, dispatch, whole);
  });
  return serial;
}

void end_update(std::uint64_t serial, bool completed, std::string_view error) noexcept {
  with_training([&](Training& training, Here here) {
    training.end_optimizer(here, serial, completed, error);
  });
}

// update_begins(source, whole, dispatch). Whole: forward and backward are inside of it.
PyObject* update_begins(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "update_begins(source, whole, dispatch)");
    return nullptr;
  }
  Begun begun;
  const std::uint32_t whole = args[1] == Py_True ? compiled_step() : 0;
  begun.optimizer = begin_update(args[0], whole, args[2] == Py_True);
  return keep(begun);
}

// update_ends(number, exception)
PyObject* update_ends(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Begun begun;
  if (count != 2 || !take(args[0], begun) || begun.optimizer == 0) Py_RETURN_NONE;
  const bool failed = args[1] != Py_None;
  const std::string error = failed ? exception_text(args[1]).members() : std::string();
  end_update(begun.optimizer, !failed, error);
  Py_RETURN_NONE;
}

// -- building a model --

bool is_symbolic(PyObject* value) noexcept {
  return value != nullptr && PyType_IsSubtype(Py_TYPE(value), g_symbolic_type) != 0;
}

bool holds_symbolic(PyObject* value) noexcept {
  if (is_symbolic(value)) return true;
  if (PyList_Check(value))
    return PyList_GET_SIZE(value) > 0 && is_symbolic(PyList_GET_ITEM(value, 0));
  if (PyTuple_Check(value))
    return PyTuple_GET_SIZE(value) > 0 && is_symbolic(PyTuple_GET_ITEM(value, 0));
  PyObject *key, *first;
  Py_ssize_t at = 0;
  return PyDict_Check(value) && PyDict_Next(value, &at, &key, &first) != 0 && is_symbolic(first);
}

PyObject* know_symbolic(PyObject*, PyObject* type) {
  PyTypeObject* known = PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr;
  Py_XINCREF(known);
  Py_XDECREF(std::exchange(g_symbolic_type, known));
  Py_RETURN_NONE;
}

// -- is there any loop? --

constexpr std::string_view kLevels[] = {"epoch", "step", "batch", "validation", "predict", "train"};

// levels_open(): does any stack have a level open that a loop would have?
PyObject* levels_open(PyObject*, PyObject*) {
  record::Journal& journal = record::Journal::instance();
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    const record::Lane& lane = journal.lane(i);
    if (lane.state.load(std::memory_order_acquire) == record::LaneState::kFree) continue;
    const std::uint32_t depth =
        std::min(lane.depth.load(std::memory_order_acquire), record::kMaxDepth);
    for (std::uint32_t slot = 0; slot < depth; ++slot) {
      const record::OpenScope& scope = lane.stack[slot];
      if ((scope.flags.load(std::memory_order_relaxed) & record::kSlotClosed) != 0) continue;
      const std::string_view name = record::name_text(scope.name);
      if (std::ranges::find(kLevels, name) != std::end(kLevels)) Py_RETURN_TRUE;
    }
  }
  Py_RETURN_FALSE;
}

// levels_recorded(): is there one among the spans of the session, closed or open?
PyObject* levels_recorded(PyObject*, PyObject*) {
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
    {"pass_begins", as_method(pass_begins), METH_FASTCALL,
     "pass_begins(what, dispatch, owned)\n--\n\nA \"forward\" or a \"backward\" of a loop of "
     "the program's own begins; its number, for pass_ends. dispatch: its time is that of handing "
     "work to a device. owned: an optimizer is known that trains the model."},
    {"pass_ends", as_method(pass_ends), METH_FASTCALL,
     "pass_ends(number, exception)\n--\n\nIt has returned (None) or raised."},
    {"update_begins", as_method(update_begins), METH_FASTCALL,
     "update_begins(source, whole, dispatch)\n--\n\nAn update begins; its number, for "
     "update_ends. source: the optimizer, or the function. whole: a compiled step with forward and "
     "backward inside."},
    {"update_ends", as_method(update_ends), METH_FASTCALL,
     "update_ends(number, exception)\n--\n\nIt has returned (None) or raised."},
    {"know_symbolic", know_symbolic, METH_O,
     "know_symbolic(type)\n--\n\nModules called with such a value compute nothing: no forward. "
     "None: there is no such type."},
    {"levels_open", levels_open, METH_NOARGS,
     "levels_open()\n--\n\nWhether an epoch, step, batch, validation, predict or train is open "
     "anywhere."},
    {"levels_recorded", levels_recorded, METH_NOARGS,
     "levels_recorded()\n--\n\nThe same for the spans of the session, as far as they are held."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool has_symbolic(PyObject* const* args, std::size_t flagged, PyObject* keys) noexcept {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged) + keyword_count(keys);
  for (Py_ssize_t i = 1; i < count; ++i) {
    if (holds_symbolic(args[i])) return true;
  }
  return false;
}

std::uint64_t begin_compiled(PyObject* function, Compiled what, bool dispatch) noexcept {
  return begin_update(function, what == Compiled::kStep ? compiled_step() : hook::names().backward,
                      dispatch);
}

void end_compiled(std::uint64_t number, bool completed) noexcept {
  end_update(number, completed, completed ? std::string() : exception_members());
}

bool add_own_loops(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
