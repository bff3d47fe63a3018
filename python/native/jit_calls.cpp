// Follows calls of functions that jax.jit has made. The function object stays the same; only its
// vectorcall pointer, through which bytecode calls it, is replaced.
//
// A followed function differentiates, which is seen while JAX traces it. If it gets back what it
// returned, it is a training step. If arguments that have a counterpart of the same shape in its
// result are replaced between calls by arrays that it did not return, it only computes gradients
// and the program updates elsewhere: it is a backward. hooks/jax.py decides which, during the first
// calls.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "engine/base/swallowed.h"
#include "engine/probe/device_queue.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/module.h"
#include "python/native/newest_batch.h"
#include "python/native/own_loops.h"

namespace sonde::native {

namespace {

// kDifferentiates: it differentiates, and whether it is a step or a backward is not known yet.
enum class Role : std::uint8_t { kUnknown, kDifferentiates, kStep, kBackward, kOther };

struct Jitted {
  PyObject* reference = nullptr;  // weak; its callback tells when the function dies
  Role role = Role::kUnknown;
  int asked = 0;
};

constexpr int kMostQuestions = 64;

// The functions whose calls are followed.
class JitCalls {
 public:
  // role(function, args): "step", "backward" or None; note(function, args, result).
  void begin(PyObject* role, PyObject* note);
  void end(vectorcallfunc ours);
  // False: the function is followed already, or of another kind.
  bool follow(PyObject* function, vectorcallfunc ours);
  void forget(PyObject* reference);

  // The pointer may not be kept while Python code runs, which may end the session.
  Jitted* find(PyObject* function) {
    const auto found = on_ ? jitted_.find(function) : jitted_.end();
    return found != jitted_.end() ? &found->second : nullptr;
  }
  Role role_of(PyObject* function) {
    const Jitted* jitted = find(function);
    return jitted != nullptr ? jitted->role : Role::kOther;
  }
  void set_role(PyObject* function, Role role) {
    if (Jitted* jitted = find(function)) jitted->role = role;
  }
  void settle_role(PyObject* function, bool step);

  PyObject* ask_role() const { return role_; }
  PyObject* ask_note() const { return note_; }
  vectorcallfunc original() const { return original_; }

 private:
  std::unordered_map<PyObject*, Jitted> jitted_;
  vectorcallfunc original_ = nullptr;  // the same in all functions
  bool on_ = false;
  PyObject *role_ = nullptr, *note_ = nullptr;
};

JitCalls g_jit_calls;
constinit thread_local PyObject* t_outermost = nullptr;

vectorcallfunc* place_of(PyObject* function) {
  PyTypeObject* type = Py_TYPE(function);
  if ((type->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) == 0 || type->tp_vectorcall_offset <= 0)
    return nullptr;
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function) +
                                           type->tp_vectorcall_offset);
}

struct Arguments {
  PyObject* const* values;
  Py_ssize_t count;  // including keyword arguments

  [[nodiscard]] Ref tuple() const {
    Ref all(PyTuple_New(count));
    for (Py_ssize_t i = 0; all && i < count; ++i)
      PyTuple_SET_ITEM(all.get(), i, Py_NewRef(values[i]));
    return all;
  }
};

// If the question fails, this function is not asked about again. After an interrupt it is.
Ref ask(PyObject* question, PyObject* function, const Arguments& args, PyObject* result = nullptr) {
  const KeepError keep;
  const Ref held(Py_XNewRef(question)), all = args.tuple();
  Ref answer(held && all
                 ? PyObject_CallFunctionObjArgs(held.get(), function, all.get(), result, nullptr)
                 : nullptr);
  if (!answer && drop_error()) {
    base::note_swallowed("hooks.jax");
    g_jit_calls.set_role(function, Role::kOther);
  }
  return answer;
}

// In a program with functions that are whole steps, other functions that differentiate belong to an
// evaluation (forces, attacks).
void JitCalls::settle_role(PyObject* function, bool step) {
  if (!step) {
    const bool any_step = std::ranges::any_of(
        jitted_, [](const auto& each) { return each.second.role == Role::kStep; });
    if (!any_step) set_role(function, Role::kBackward);
    return;
  }
  for (auto& [other, jitted] : jitted_) {
    if (jitted.role == Role::kBackward) jitted.role = Role::kOther;
  }
  set_role(function, Role::kStep);
}

// Is the role of this function still open? The role of a backward may change: if the function is
// given what it returned long ago, it is a step.
bool is_asked(PyObject* function) {
  const Jitted* jitted = g_jit_calls.find(function);
  return jitted != nullptr && jitted->asked < kMostQuestions &&
         (jitted->role == Role::kDifferentiates || jitted->role == Role::kBackward);
}

void judge(PyObject* function, const Arguments& args) {
  const Ref answer = ask(g_jit_calls.ask_role(), function, args);
  if (!answer) return;
  if (answer.get() != Py_None)
    g_jit_calls.settle_role(function, PyUnicode_CompareWithASCIIString(answer.get(), "step") == 0);
  Jitted* jitted = g_jit_calls.find(function);
  if (jitted != nullptr && ++jitted->asked == kMostQuestions &&
      jitted->role == Role::kDifferentiates)
    jitted->role = Role::kOther;
}

// The batch that was fetched is used now. `seen`: by a call that has a span.
void use_batch_of(const Arguments& args, bool seen) {
  with_training([&](hook::Training& training, hook::Here) {
    NewestBatches::use(training, args.values, args.count);
    if (!seen) training.use_unseen();
  });
}

PyObject* outermost(PyObject* function, PyObject* const* values, std::size_t flagged,
                    PyObject* keys) {
  const Arguments args{values, PyVectorcall_NARGS(flagged) + keyword_count(keys)};
  if (is_asked(function)) judge(function, args);
  // The fit of Keras watches the queue, and opens its steps itself.
  const bool own_loop = !probe::queue_watched();
  const Role role = g_jit_calls.role_of(function);
  std::uint64_t span = 0;
  if (own_loop && (role == Role::kStep || role == Role::kBackward)) {
    use_batch_of(args, true);
    span =
        begin_compiled(function, role == Role::kStep ? Compiled::kStep : Compiled::kBackward, true);
  }
  t_outermost = function;
  PyObject* result = g_jit_calls.original()(function, values, flagged, keys);
  t_outermost = nullptr;
  if (span != 0) end_compiled(span, result != nullptr);
  if (result != nullptr && is_asked(function)) {
    if (own_loop && span == 0) use_batch_of(args, false);
    ask(g_jit_calls.ask_note(), function, args, result);
  }
  return result;
}

PyObject* call_jitted(PyObject* function, PyObject* const* args, std::size_t flagged,
                      PyObject* keys) {
  if (t_outermost == nullptr && g_jit_calls.role_of(function) != Role::kOther)
    return outermost(function, args, flagged, keys);
  return g_jit_calls.original()(function, args, flagged, keys);
}

// The weak reference's callback.
PyObject* forget(PyObject*, PyObject* reference) {
  g_jit_calls.forget(reference);
  Py_RETURN_NONE;
}

PyMethodDef g_forget = {"forget_jitted", forget, METH_O, nullptr};

bool JitCalls::follow(PyObject* function, vectorcallfunc ours) {
  vectorcallfunc* place = place_of(function);
  if (!on_ || place == nullptr || (original_ != nullptr && *place != original_)) return false;
  static PyObject* callback = PyCFunction_New(&g_forget, nullptr);
  PyObject* reference = PyWeakref_NewRef(function, callback);
  if (reference == nullptr) return PyErr_Clear(), false;
  jitted_[function] = {.reference = reference, .role = Role::kUnknown, .asked = 0};
  original_ = *place;
  *place = ours;
  return true;
}

void JitCalls::forget(PyObject* reference) {
  for (auto at = jitted_.begin(); at != jitted_.end(); ++at) {
    if (at->second.reference != reference) continue;
    jitted_.erase(at);
    Py_DECREF(reference);
    return;
  }
}

void JitCalls::begin(PyObject* role, PyObject* note) {
  Py_XDECREF(std::exchange(role_, Py_NewRef(role)));
  Py_XDECREF(std::exchange(note_, Py_NewRef(note)));
  on_ = true;
}

void JitCalls::end(vectorcallfunc ours) {
  on_ = false;
  auto all = std::exchange(jitted_, {});
  for (auto& [function, jitted] : all) {
    vectorcallfunc* place = place_of(function);
    if (place != nullptr && *place == ours) *place = original_;
    Py_XDECREF(jitted.reference);  // and so its callback
  }
  Py_XDECREF(std::exchange(role_, nullptr));
  Py_XDECREF(std::exchange(note_, nullptr));
}

PyObject* follow_calls(PyObject*, PyObject* function) {
  return PyBool_FromLong(g_jit_calls.follow(function, call_jitted));
}

PyObject* start_following(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "start_following(role, note)");
    return nullptr;
  }
  g_jit_calls.begin(args[0], args[1]);
  Py_RETURN_NONE;
}

PyObject* stop_following(PyObject*, PyObject*) {
  g_jit_calls.end(call_jitted);
  Py_RETURN_NONE;
}

PyObject* note_differentiation(PyObject*, PyObject*) {
  if (t_outermost != nullptr && g_jit_calls.role_of(t_outermost) == Role::kUnknown)
    g_jit_calls.set_role(t_outermost, Role::kDifferentiates);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"start_following", as_method(start_following), METH_FASTCALL,
     "start_following(role, note)\n--\n\nfollow_calls() may be used from now on. role(function, "
     "args): is it a \"step\", a \"backward\", or None yet? note(function, args, result): what it "
     "got and returned."},
    {"follow_calls", follow_calls, METH_O,
     "follow_calls(function)\n--\n\nCalls of this compiled function may be training steps."},
    {"stop_following", stop_following, METH_NOARGS,
     "stop_following()\n--\n\nUndoes everything that start_following() and follow_calls() did."},
    {"note_differentiation", note_differentiation, METH_NOARGS,
     "note_differentiation()\n--\n\nThe compiled function that is being called differentiates."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_jit_calls(PyObject* jax) { return PyModule_AddFunctions(jax, g_functions) == 0; }

}  // namespace sonde::native
