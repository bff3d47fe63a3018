// scope(name, index=None, **attrs): making scope objects, and their type.
#include <cstddef>
#include <vector>

#include "python/native/module.h"
#include "python/native/names.h"
#include "python/native/scope.h"

namespace sonde::native {

namespace {

constexpr std::size_t kFreeListSize = 64;
struct FreeList {
  std::size_t count = 0;
  Scope* scopes[kFreeListSize] = {};
};
constinit FreeList g_free;

Scope* allocate() {
  if (g_free.count > 0) {
    Scope* self = g_free.scopes[--g_free.count];
    PyObject_Init(reinterpret_cast<PyObject*>(self), &g_scope_type);
    return self;
  }
  return PyObject_GC_New(Scope, &g_scope_type);
}

bool set_index(Scope* self, PyObject* index) {
  self->has_index = index != Py_None;
  self->index = 0;
  if (!self->has_index) return true;
  if (!PyIndex_Check(index)) {
    PyErr_Format(PyExc_TypeError, "scope() index must be an int or None, not %.100s",
                 Py_TYPE(index)->tp_name);
    return false;
  }
  const Ref number(PyNumber_Index(index));
  if (!number) return false;
  self->index = PyLong_AsLongLong(number.get());
  if (self->index != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  PyErr_SetString(PyExc_ValueError, "scope() index must fit into 64 bits");
  return false;
}

// Takes the keyword arguments `name`, `index` and, if it is a bool, `gpu`; all others are
// attributes.
bool take_keywords(Scope* self, PyObject* const* values, PyObject* keys, PyObject** name,
                   PyObject** index) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (PyBool_Check(values[i]) && PyUnicode_CompareWithASCIIString(key, "gpu") == 0) {
      self->gpu = values[i] == Py_True;
      continue;
    }
    PyObject** target = PyUnicode_CompareWithASCIIString(key, "index") == 0  ? index
                        : PyUnicode_CompareWithASCIIString(key, "name") == 0 ? name
                                                                             : nullptr;
    if (target != nullptr) {
      if (*target != nullptr) {
        PyErr_Format(PyExc_TypeError, "scope() got multiple values for argument '%U'", key);
        return false;
      }
      *target = values[i];
      continue;
    }
    if (self->attrs == nullptr && (self->attrs = PyDict_New()) == nullptr) return false;
    if (PyDict_SetItem(self->attrs, key, values[i]) != 0) return false;
  }
  return true;
}

bool fill(Scope* self, PyObject* const* args, Py_ssize_t count, PyObject* keys) {
  if (count > 2) {
    PyErr_Format(PyExc_TypeError, "scope() takes at most 2 positional arguments (%zd given)",
                 count);
    return false;
  }
  PyObject* name = count > 0 ? args[0] : nullptr;
  PyObject* index = count > 1 ? args[1] : nullptr;
  if (keys != nullptr && !take_keywords(self, args + count, keys, &name, &index)) return false;
  if (name == nullptr) {
    PyErr_SetString(PyExc_TypeError, "scope() missing required argument: 'name'");
    return false;
  }
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "scope() name must be a str, not %.100s", Py_TYPE(name)->tp_name);
    return false;
  }
  self->name = Py_NewRef(name);
  self->name_id = name_id(name);
  return index == nullptr || set_index(self, index);
}

PyObject* scope_vectorcall(PyObject*, PyObject* const* args, std::size_t flagged, PyObject* keys) {
  Scope* self = allocate();
  if (self == nullptr) return nullptr;
  self->call = call_scope;
  self->name = self->attrs = nullptr;
  self->handle = {};
  self->end_ns = 0;
  self->outer = nullptr;
  self->has_index = self->gpu = self->entered = false;
  self->flags = 0;
  self->index = 0;
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  auto* object = reinterpret_cast<PyObject*>(self);
  if (!fill(self, args, count, keys)) {
    Py_DECREF(object);
    return nullptr;
  }
  // Only a scope with attributes can be part of a cycle.
  if (self->attrs != nullptr) PyObject_GC_Track(object);
  return object;
}

// For callers that cannot use vectorcall: type.__call__ through tp_new.
PyObject* scope_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  const Py_ssize_t extra = keywords != nullptr ? PyDict_GET_SIZE(keywords) : 0;
  const Ref keys(extra != 0 ? PyTuple_New(extra) : nullptr);
  std::vector<PyObject*> all;
  all.reserve(static_cast<std::size_t>(count + extra));
  for (Py_ssize_t i = 0; i < count; ++i) all.push_back(PyTuple_GET_ITEM(args, i));
  if (extra != 0) {
    if (!keys) return nullptr;
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(keywords, &position, &key, &value)) {
      PyTuple_SET_ITEM(keys.get(), i++, Py_NewRef(key));
      all.push_back(value);
    }
  }
  return scope_vectorcall(nullptr, all.data(), static_cast<std::size_t>(count), keys.get());
}

int scope_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_scope(self)->attrs);
  return 0;
}

int scope_clear(PyObject* self) {
  Py_CLEAR(as_scope(self)->attrs);
  return 0;
}

void scope_dealloc(PyObject* object) {
  Scope* self = as_scope(object);
  if (PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
  // The scope was entered by hand and dropped: its span ends here, and an attribute says so.
  while (self->entered) close_scope(self, record::ClosedBy::kGarbage);
  Py_CLEAR(self->name);
  Py_CLEAR(self->attrs);
  if (g_free.count < kFreeListSize) {
    g_free.scopes[g_free.count++] = self;
  } else {
    PyObject_GC_Del(object);
  }
}

// `with` would allocate a bound method for __enter__ and one for __exit__. So the two are
// descriptors that return the scope itself, which is callable: without arguments it enters, with
// the three arguments of __exit__ it exits. Looked up on the class, the descriptors return
// themselves.
struct Doorway {
  PyObject_HEAD vectorcallfunc call;
  bool exit;
};

PyObject* call_doorway(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject*) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if (count < 1 || Py_TYPE(args[0]) != &g_scope_type) {
    PyErr_SetString(PyExc_TypeError, "the first argument must be a scope");
    return nullptr;
  }
  if (!reinterpret_cast<Doorway*>(self)->exit) return enter_scope(args[0]);
  return exit_scope(args[0], count > 2 ? args[2] : Py_None);
}

PyObject* bind_doorway(PyObject* self, PyObject* scope, PyObject*) {
  return Py_NewRef(scope != nullptr && scope != Py_None ? scope : self);
}

PyTypeObject g_doorway_type = [] {
  PyTypeObject type = make_type(
      "sonde._core.doorway", sizeof(Doorway), nullptr,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION);
  type.tp_vectorcall_offset = offsetof(Doorway, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = bind_doorway;
  return type;
}();

bool add_doorway(const char* name, bool exit) {
  auto* doorway = PyObject_New(Doorway, &g_doorway_type);
  if (doorway == nullptr) return false;
  doorway->call = call_doorway;
  doorway->exit = exit;
  const Ref owned(reinterpret_cast<PyObject*>(doorway));
  return PyDict_SetItemString(g_scope_type.tp_dict, name, owned.get()) == 0;
}

}  // namespace

PyTypeObject g_scope_type = [] {
  PyTypeObject type =
      make_type("sonde._core.scope", sizeof(Scope), scope_dealloc,
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL);
  type.tp_repr = scope_repr;
  type.tp_vectorcall_offset = offsetof(Scope, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_doc =
      "scope(name, index=None, **attrs)\n--\n\nA region of the run: a context manager that records "
      "one span.";
  type.tp_traverse = scope_traverse;
  type.tp_clear = scope_clear;
  type.tp_getset = g_scope_fields;
  type.tp_new = scope_new;
  type.tp_vectorcall = scope_vectorcall;
  return type;
}();

bool add_scope(PyObject* core) {
  if (PyType_Ready(&g_doorway_type) != 0 || PyType_Ready(&g_scope_type) != 0) return false;
  if (!add_doorway("__enter__", false) || !add_doorway("__exit__", true)) return false;
  PyType_Modified(&g_scope_type);
  return PyModule_AddObjectRef(core, "scope", reinterpret_cast<PyObject*>(&g_scope_type)) == 0;
}

}  // namespace sonde::native
