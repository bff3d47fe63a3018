// Calls of functions that jax.jit has made. Such an object stays what it is: only the vectorcall
// that its type keeps in every object is exchanged, which is what a call from bytecode reaches.
//
// A function that differentiates (seen while JAX traces it) and gets back what it has returned is a
// training step. Whether it does is asked, in Python, at its first calls only.
#include <unordered_map>
#include <utility>

#include "engine/probe/device_queue.h"
#include "python/native/hooks.h"
#include "python/native/newest_batch.h"
#include "python/native/own_loops.h"
#include "python/native/training_call.h"

namespace sonde::native {

namespace {

enum class Role : std::uint8_t { kUnknown, kDifferentiates, kTrains, kOther };

struct Jitted {
  PyObject* reference = nullptr;  // weak; tells when the function goes
  Role role = Role::kUnknown;
  int asked = 0;
};

constexpr int kMostQuestions = 8;

std::unordered_map<PyObject*, Jitted> g_jitted;
vectorcallfunc g_original = nullptr;  // the same for all of them
bool g_on = false;
PyObject *g_is_fed = nullptr, *g_note = nullptr;  // is_fed(function, args), note(function, result)
constinit thread_local PyObject* t_outermost = nullptr;

vectorcallfunc* place_of(PyObject* function) {
  PyTypeObject* type = Py_TYPE(function);
  if ((type->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) == 0 || type->tp_vectorcall_offset <= 0)
    return nullptr;
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function) +
                                           type->tp_vectorcall_offset);
}

// Never kept across Python code, which may end the session.
Jitted* find(PyObject* function) {
  const auto found = g_on ? g_jitted.find(function) : g_jitted.end();
  return found != g_jitted.end() ? &found->second : nullptr;
}

Role role_of(PyObject* function) {
  const Jitted* jitted = find(function);
  return jitted != nullptr ? jitted->role : Role::kOther;
}

void set_role(PyObject* function, Role role) {
  if (Jitted* jitted = find(function)) jitted->role = role;
}

// A question of ours that fails is the last one about this function.
bool ask(PyObject* question, PyObject* function, PyObject* about) {
  const KeepError keep;
  const Ref held(Py_XNewRef(question));
  const Ref answer(held && about != nullptr
                       ? PyObject_CallFunctionObjArgs(held.get(), function, about, nullptr)
                       : nullptr);
  if (!answer) {
    PyErr_Clear();
    set_role(function, Role::kOther);
  }
  return answer.get() == Py_True;
}

void judge(PyObject* function, PyObject* const* args, std::size_t flagged, PyObject* keys) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged) + keyword_count(keys);
  const Ref all(PyTuple_New(count));
  for (Py_ssize_t i = 0; all && i < count; ++i) PyTuple_SET_ITEM(all.get(), i, Py_NewRef(args[i]));
  if (ask(g_is_fed, function, all.get())) return set_role(function, Role::kTrains);
  Jitted* jitted = find(function);
  if (jitted != nullptr && ++jitted->asked == kMostQuestions) jitted->role = Role::kOther;
}

PyObject* outermost(PyObject* function, PyObject* const* args, std::size_t flagged,
                    PyObject* keys) {
  if (role_of(function) == Role::kDifferentiates) judge(function, args, flagged, keys);
  // Keras's fit watches the queue, and has steps of its own.
  const bool trains = role_of(function) == Role::kTrains && !probe::queue_watched();
  if (trains) {
    with_training([&](hook::Training& training, hook::Here) {
      use_batch(training, args, PyVectorcall_NARGS(flagged) + keyword_count(keys));
    });
  }
  const std::uint64_t step = trains ? begin_compiled_step(function, true) : 0;
  t_outermost = function;
  PyObject* result = g_original(function, args, flagged, keys);
  t_outermost = nullptr;
  if (step != 0) end_compiled_step(step, result != nullptr);
  if (result != nullptr && role_of(function) == Role::kDifferentiates)
    ask(g_note, function, result);
  return result;
}

PyObject* call_jitted(PyObject* function, PyObject* const* args, std::size_t flagged,
                      PyObject* keys) {
  if (t_outermost == nullptr && role_of(function) != Role::kOther)
    return outermost(function, args, flagged, keys);
  return g_original(function, args, flagged, keys);
}

// The weak reference's callback.
PyObject* forget(PyObject*, PyObject* reference) {
  for (auto at = g_jitted.begin(); at != g_jitted.end(); ++at) {
    if (at->second.reference != reference) continue;
    g_jitted.erase(at);
    Py_DECREF(reference);
    break;
  }
  Py_RETURN_NONE;
}

PyMethodDef g_forget = {"forget_jitted", forget, METH_O, nullptr};

// watch_jitted(function): its calls are looked at from now on. False: it is not of that kind.
PyObject* watch_jitted(PyObject*, PyObject* function) {
  vectorcallfunc* place = place_of(function);
  if (!g_on || place == nullptr || (g_original != nullptr && *place != g_original))
    Py_RETURN_FALSE;  // ours already, or another kind of function
  static PyObject* callback = PyCFunction_New(&g_forget, nullptr);
  PyObject* reference = PyWeakref_NewRef(function, callback);
  if (reference == nullptr) return PyErr_Clear(), Py_NewRef(Py_False);
  g_jitted[function] = {.reference = reference, .role = Role::kUnknown, .asked = 0};
  g_original = *place;
  *place = call_jitted;
  Py_RETURN_TRUE;
}

// begin_jitted(is_fed, note)
PyObject* begin_jitted(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "begin_jitted(is_fed, note)");
    return nullptr;
  }
  Py_XDECREF(std::exchange(g_is_fed, Py_NewRef(args[0])));
  Py_XDECREF(std::exchange(g_note, Py_NewRef(args[1])));
  g_on = true;
  Py_RETURN_NONE;
}

PyObject* unwatch_jitted(PyObject*, PyObject*) {
  g_on = false;
  auto all = std::exchange(g_jitted, {});
  for (auto& [function, jitted] : all) {
    vectorcallfunc* place = place_of(function);
    if (place != nullptr && *place == call_jitted) *place = g_original;
    Py_XDECREF(jitted.reference);  // with it its callback goes
  }
  Py_XDECREF(std::exchange(g_is_fed, nullptr));
  Py_XDECREF(std::exchange(g_note, nullptr));
  Py_RETURN_NONE;
}

// jitted_differentiates(): something is differentiated here, inside of what is being called.
PyObject* jitted_differentiates(PyObject*, PyObject*) {
  if (t_outermost != nullptr && role_of(t_outermost) == Role::kUnknown)
    set_role(t_outermost, Role::kDifferentiates);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"begin_jitted", as_method(begin_jitted), METH_FASTCALL,
     "begin_jitted(is_fed, note)\n--\n\nwatch_jitted may be used. is_fed(function, args): are they "
     "what it returned last? note(function, result): what that was."},
    {"watch_jitted", watch_jitted, METH_O,
     "watch_jitted(function)\n--\n\nCalls of this compiled function may be training steps."},
    {"unwatch_jitted", unwatch_jitted, METH_NOARGS,
     "unwatch_jitted()\n--\n\nEverything watch_jitted did is undone."},
    {"jitted_differentiates", jitted_differentiates, METH_NOARGS,
     "jitted_differentiates()\n--\n\nThe compiled function that is being called differentiates."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_jit_calls(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
