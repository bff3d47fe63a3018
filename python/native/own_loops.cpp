// Loops that programs write in frameworks other than torch. Their hooks are in Python; they report
// forwards, backwards and updates here.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/base/attr_names.h"
#include "engine/hook/names.h"
#include "engine/hook/training.h"
#include "engine/record/names.h"
#include "engine/record/stack.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/module.h"
#include "python/native/modules.h"
#include "python/native/optimizer_classes.h"
#include "python/native/own_loops.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

// A forward, backward or update that has begun and not ended. Python ends it by its number, on the
// same thread.
struct Begun {
  record::ScopeHandle scope;    // of a forward or backward
  bool backward = false;        // is it a backward?
  std::uint64_t optimizer = 0;  // of an update
};

// One per process. Needs the GIL.
class OwnLoops {
 public:
  static OwnLoops& instance() noexcept { return *one_; }

  // Its number; 0: this thread does not record.
  PyObject* keep(const Begun& begun) {
    if (!begun.scope && begun.optimizer == 0) return PyLong_FromLong(0);
    begun_.emplace(++newest_, begun);
    return PyLong_FromUnsignedLongLong(newest_);
  }

  bool take(PyObject* number, Begun& out) {
    const auto found = begun_.find(PyLong_AsUnsignedLongLong(number));
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (found == begun_.end()) return false;
    out = found->second;
    begun_.erase(found);
    return true;
  }

  // Interned JSON members, with kDispatchMember added.
  std::uint32_t with_dispatch(std::uint32_t attrs) {
    if (const auto found = dispatched_.find(attrs); found != dispatched_.end())
      return found->second;
    std::string text(record::name_text(attrs));
    if (!text.empty()) text += ',';
    const std::uint32_t both = record::intern(text.append(base::kDispatchMember));
    dispatched_[attrs] = dispatched_[both] = both;
    return both;
  }

 private:
  static OwnLoops* const one_;  // never destroyed: functions may be called at exit

  std::unordered_map<std::uint64_t, Begun> begun_;
  std::uint64_t newest_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> dispatched_;
};
OwnLoops* const OwnLoops::one_ = new OwnLoops;

// To be called right after the innermost scope was opened. `dispatch`: the host only hands work to
// a device, so the durations of this scope and of the step and epoch that hooks have opened around
// it are marked as dispatch. (Steps and epochs that the program opens may wait for the device.)
// `renamed`: the name of an update that is a whole step.
void describe(const Training& training, Here here, bool dispatch, std::uint32_t renamed) {
  const hook::Names& name = hook::names();
  const record::ScopeView top = record::top_of(here.stack);
  const std::uint64_t innermost = top ? top.sequence() : 0;
  record::edit_scopes(here.stack, [&](record::ScopeEdit& scope) {
    const bool begins = scope.sequence() == innermost;
    if (begins && renamed != 0 && scope.name() == name.optimizer_step) scope.rename(renamed);
    if (dispatch && (begins || training.opened(scope.sequence())))
      scope.set_static_attrs(OwnLoops::instance().with_dispatch(scope.static_attrs()));
  });
}

// begin_module(what, dispatch, owned): "forward" or "backward".
PyObject* begin_module(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "begin_module(what, dispatch, owned)");
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
  return OwnLoops::instance().keep(begun);
}

// end_module(number, exception)
PyObject* end_module(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Begun begun;
  if (count != 2 || !OwnLoops::instance().take(args[0], begun) || !begun.scope) Py_RETURN_NONE;
  const bool failed = args[1] != Py_None;
  const std::string error = failed ? exception_text(args[1]).members() : std::string();
  with_training([&](Training& training, Here here) {
    if (begun.backward) {
      training.end_backward(here, begun.scope, failed, error);
    } else if (training.end_forward(here, begun.scope, failed, error)) {
      training.use_graph(begun.scope.sequence);
    }
  });
  Py_RETURN_NONE;
}

std::uint32_t compiled_step() {
  static const std::uint32_t name = record::intern("compiled_step");
  return name;
}

// `source`: the optimizer, or the compiled function; compared only. `whole`: the name of a call
// that is a whole step; 0: the update is that of an optimizer.
std::uint64_t start_update(PyObject* source, std::uint32_t whole, bool dispatch) noexcept {
  const std::uint32_t attrs = whole != 0 ? 0 : OptimizerClasses::attrs_of(Py_TYPE(source));
  std::uint64_t serial = 0;
  with_training([&](Training& training, Here here) {
    serial = training.begin_optimizer(here, source, whole != 0, attrs);
    if (serial != 0) describe(training, here, dispatch, whole);
  });
  return serial;
}

void finish_update(std::uint64_t serial, bool completed, std::string_view error) noexcept {
  with_training([&](Training& training, Here here) {
    training.end_optimizer(here, serial, completed, error);
  });
}

// begin_update(source, whole, dispatch). whole: forward and backward are inside the update.
PyObject* begin_update(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "begin_update(source, whole, dispatch)");
    return nullptr;
  }
  Begun begun;
  const std::uint32_t whole = args[1] == Py_True ? compiled_step() : 0;
  begun.optimizer = start_update(args[0], whole, args[2] == Py_True);
  return OwnLoops::instance().keep(begun);
}

// end_update(number, exception)
PyObject* end_update(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Begun begun;
  if (count != 2 || !OwnLoops::instance().take(args[0], begun) || begun.optimizer == 0)
    Py_RETURN_NONE;
  const bool failed = args[1] != Py_None;
  const std::string error = failed ? exception_text(args[1]).members() : std::string();
  finish_update(begun.optimizer, !failed, error);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"begin_module", as_method(begin_module), METH_FASTCALL,
     "begin_module(what, dispatch, owned)\n--\n\nA \"forward\" or a \"backward\" begins in a "
     "loop that the program wrote; its number, for end_module. dispatch: its time is that of "
     "handing work to a device. owned: an optimizer is known that trains the model."},
    {"end_module", as_method(end_module), METH_FASTCALL,
     "end_module(number, exception)\n--\n\nIt has returned (None) or raised."},
    {"begin_update", as_method(begin_update), METH_FASTCALL,
     "begin_update(source, whole, dispatch)\n--\n\nAn update begins; its number, for "
     "end_update. source: the optimizer, or the function. whole: a compiled step with forward and "
     "backward inside."},
    {"end_update", as_method(end_update), METH_FASTCALL,
     "end_update(number, exception)\n--\n\nIt has returned (None) or raised."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

std::uint64_t begin_compiled(PyObject* function, Compiled what, bool dispatch) noexcept {
  return start_update(function, what == Compiled::kStep ? compiled_step() : hook::names().backward,
                      dispatch);
}

void end_compiled(std::uint64_t number, bool completed) noexcept {
  finish_update(number, completed, completed ? std::string() : exception_members());
}

bool add_own_loops(PyObject* loops) { return PyModule_AddFunctions(loops, g_functions) == 0; }

}  // namespace sonde::native
