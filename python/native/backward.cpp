// A backward, from its call to its return.
#include <cstddef>
#include <string>

#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/known_models.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

constinit thread_local bool t_in_backward __attribute__((tls_model("initial-exec"))) = false;

// Stands in for torch.autograd.backward or torch.autograd.grad.
struct TimedFunction {
  PyObject_HEAD vectorcallfunc call;
  PyObject* original;
  PyObject* dict;
};

SONDE_COLD void end_with_error(const record::ScopeHandle& scope) {
  if (!scope) return;
  const std::string error = exception_members();
  with_training(
      [&](Training& training, Here here) { training.end_backward(here, scope, true, error); });
}

SONDE_HOT PyObject* call_backward(PyObject* self, PyObject* const* args, std::size_t flagged,
                                  PyObject* keys) {
  PyObject* original = reinterpret_cast<TimedFunction*>(self)->original;
  // Another tool may call a wrapper of an earlier session, which calls this one: only the outermost
  // call is a backward.
  if (!hooks_in_place() || t_in_backward) return PyObject_Vectorcall(original, args, flagged, keys);
  record::ScopeHandle scope;
  with_training([&](Training& training, Here here) { scope = training.begin_backward(here); });
  t_in_backward = true;
  PyObject* result = PyObject_Vectorcall(original, args, flagged, keys);
  t_in_backward = false;
  if (result == nullptr) [[unlikely]] {
    end_with_error(scope);
  } else if (scope) {
    with_training(
        [&](Training& training, Here here) { training.end_backward(here, scope, false); });
  }
  KnownModels::note_backward();
  return result;
}

void timed_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<TimedFunction*>(object);
  PyObject_GC_UnTrack(object);
  Py_CLEAR(self->original);
  Py_CLEAR(self->dict);
  PyObject_GC_Del(object);
}

int timed_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<TimedFunction*>(object);
  Py_VISIT(self->original);
  Py_VISIT(self->dict);
  return 0;
}

// Pickled by name, like the function it stands for.
PyObject* timed_reduce(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(self, "__qualname__");
}

PyMethodDef g_timed_methods[] = {
    {"__reduce__", timed_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef g_timed_fields[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject g_timed_type = [] {
  PyTypeObject type = make_type("sonde._core.timed_function", sizeof(TimedFunction), timed_dealloc,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                    Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION);
  type.tp_vectorcall_offset = offsetof(TimedFunction, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_getattro = PyObject_GenericGetAttr;
  type.tp_setattro = PyObject_GenericSetAttr;
  type.tp_traverse = timed_traverse;
  type.tp_methods = g_timed_methods;
  type.tp_getset = g_timed_fields;
  type.tp_dictoffset = offsetof(TimedFunction, dict);
  return type;
}();

PyObject* time_backward(PyObject*, PyObject* original) {
  auto* self = PyObject_GC_New(TimedFunction, &g_timed_type);
  if (self == nullptr) return nullptr;
  self->call = call_backward;
  self->original = Py_NewRef(original);
  self->dict = PyDict_New();
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}

PyMethodDef g_functions[] = {
    {"time_backward", time_backward, METH_O,
     "time_backward(original)\n--\n\nA callable that does what original does inside a backward "
     "span."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_backward(PyObject* torch) {
  return PyType_Ready(&g_timed_type) == 0 && PyModule_AddFunctions(torch, g_functions) == 0;
}

}  // namespace sonde::native
