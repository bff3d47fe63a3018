#include "python/native/graph_watch.h"

#include <cstddef>
#include <cstdint>

#include "python/native/callbacks.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

using hook::Training;

// Called by autograd.
struct GraphWatch {
  PyObject_HEAD vectorcallfunc call;
  Training* training;  // never freed
  std::uint64_t sequence;
};

PyObject* graph_used(PyObject* self, PyObject* const*, std::size_t, PyObject*) {
  const auto* watch = reinterpret_cast<GraphWatch*>(self);
  watch->training->use_graph(watch->sequence);
  Py_RETURN_NONE;
}

void watch_dealloc(PyObject* self) { PyObject_Free(self); }

PyTypeObject g_watch_type = [] {
  PyTypeObject type = make_type(
      "sonde._core.graph_watch", sizeof(GraphWatch), watch_dealloc,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION);
  type.tp_vectorcall_offset = offsetof(GraphWatch, call);
  type.tp_call = PyVectorcall_Call;
  return type;
}();

// Attaches to the first tensor with a graph in `part`. At most `budget` parts are looked at.
bool attach(PyObject* part, PyObject* callback, int& budget) {
  if (--budget < 0) return false;
  if (PyDict_Check(part)) {
    const Ref values(PyDict_Values(part));  // attach may change the dict
    if (!values) return PyErr_Clear(), false;
    return attach(values.get(), callback, budget);
  }
  if (PyTuple_Check(part) || PyList_Check(part)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(part) && budget > 0; ++i) {
      const Ref item(Py_NewRef(PySequence_Fast_GET_ITEM(part, i)));
      if (attach(item.get(), callback, budget)) return true;
    }
    return false;
  }
  const Ref function(PyObject_GetAttr(part, torch_names().grad_fn));
  if (!function || function.get() == Py_None) return drop_error(), false;
  const Ref handle(
      PyObject_CallMethodOneArg(function.get(), torch_names().register_prehook, callback));
  if (!handle) drop_error();
  return static_cast<bool>(handle);
}

}  // namespace

void watch_graph(Training& training, std::uint64_t sequence, PyObject* result) noexcept {
  const KeepError keep;
  auto* watch = PyObject_New(GraphWatch, &g_watch_type);
  if (watch == nullptr) return PyErr_Clear(), training.use_graph(sequence);
  watch->call = graph_used;
  watch->training = &training;
  watch->sequence = sequence;
  const Ref callback(reinterpret_cast<PyObject*>(watch));
  int budget = 64;
  if (!attach(result, callback.get(), budget)) training.use_graph(sequence);
}

bool add_graph_watch() { return PyType_Ready(&g_watch_type) == 0; }

}  // namespace sonde::native
