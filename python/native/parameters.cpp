#include "python/native/parameters.h"

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "python/native/callbacks.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

class Walk {
 public:
  explicit Walk(std::vector<Parameter>& out) : out_(out) {}

  // In the order of named_parameters(). False: not a known kind of module, or an exception.
  bool visit(PyObject* module, const std::string& prefix, bool sharded = false) {
    if (!modules_.insert(module).second) return true;
    const Ref own(PyObject_GetAttr(module, torch_names()._parameters));
    const Ref children(own ? PyObject_GetAttr(module, torch_names()._modules) : nullptr);
    if (!children) return drop_error(), false;
    if (!PyDict_Check(own.get()) || !PyDict_Check(children.get())) return false;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(own.get(), &at, &key, &value)) {
      if (value == Py_None || !tensors_.insert(value).second) continue;
      std::string name = prefix;
      if (!append(name, key)) return false;
      const bool flat = std::string_view(name).ends_with("_flat_param");
      out_.push_back({std::move(name), Ref(Py_NewRef(value)), sharded || flat});
    }
    at = 0;
    while (PyDict_Next(children.get(), &at, &key, &value)) {
      if (value == Py_None) continue;
      std::string below = prefix;
      if (!append(below, key)) return false;
      constexpr std::string_view kWrapper = "_fsdp_wrapped_module";  // a name that FSDP adds
      const bool wrapped = std::string_view(below).substr(prefix.size()) == kWrapper;
      if (wrapped) {
        below.resize(prefix.size());
      } else {
        below += '.';
      }
      if (!visit(value, below, sharded || wrapped)) return false;
    }
    return true;
  }

 private:
  static bool append(std::string& name, PyObject* key) {
    if (!PyUnicode_Check(key)) return false;
    if (with_utf8(key, [&](std::string_view text) { name += text; })) return true;
    return PyErr_Clear(), false;
  }

  std::vector<Parameter>& out_;
  std::unordered_set<PyObject*> modules_, tensors_;
};

bool list_pairs(const std::string& prefix, PyObject* pairs, std::vector<Parameter>& out) {
  const Ref iterator(PyObject_GetIter(pairs));
  if (!iterator) return false;
  while (true) {
    const Ref pair(PyIter_Next(iterator.get()));
    if (!pair) return PyErr_Occurred() == nullptr;
    PyObject *name = nullptr, *tensor = nullptr;
    if (!PyTuple_Check(pair.get())) {
      PyErr_SetString(PyExc_TypeError, "pairs of a name and a tensor are needed");
      return false;
    }
    if (!PyArg_ParseTuple(pair.get(), "UO", &name, &tensor)) return false;
    std::string full = prefix;
    if (!with_utf8(name, [&](std::string_view text) { full += text; })) return false;
    out.push_back({std::move(full), Ref(Py_NewRef(tensor))});
  }
}

}  // namespace

bool list_parameters(const std::string& prefix, PyObject* source, std::vector<Parameter>& out) {
  if (PyList_Check(source)) return list_pairs(prefix, source, out);
  const std::size_t before = out.size();
  if (Walk(out).visit(source, prefix)) return true;
  out.resize(before);
  const Ref pairs(PyObject_CallMethod(source, "named_parameters", nullptr));
  return pairs && list_pairs(prefix, pairs.get(), out);
}

void keep_gradients(std::vector<Parameter>& all, const std::unordered_set<const PyObject*>* only,
                    PyObject* skip) {
  std::size_t kept = 0;
  for (Parameter& parameter : all) {
    if (only != nullptr && !only->contains(parameter.tensor.get())) continue;
    if (PySet_GET_SIZE(skip) != 0) {
      const Ref name(PyUnicode_FromStringAndSize(parameter.name.data(),
                                                 static_cast<Py_ssize_t>(parameter.name.size())));
      const int found = name ? PySet_Contains(skip, name.get()) : -1;
      if (found < 0) PyErr_Clear();
      if (found > 0) continue;
    }
    Ref gradient(PyObject_GetAttr(parameter.tensor.get(), torch_names().grad));
    if (!gradient) drop_error();
    if (!gradient || gradient.get() == Py_None) continue;
    parameter.tensor = std::move(gradient);
    if (&all[kept] != &parameter) all[kept] = std::move(parameter);
    ++kept;
  }
  all.resize(kept);
}

PyObject* living_modules() {
  Ref found(PyList_New(0));
  const Torch* known = torch();
  if (known == nullptr) return found.release();
  const Ref gc(PyImport_ImportModule("gc"));
  const Ref objects(gc ? PyObject_CallMethod(gc.get(), "get_objects", nullptr) : nullptr);
  if (!found || !objects || !PyList_Check(objects.get())) return nullptr;
  std::unordered_map<const PyTypeObject*, bool> types;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects.get()); ++i) {
    PyObject* object = PyList_GET_ITEM(objects.get(), i);
    const auto [type, is_new] = types.try_emplace(Py_TYPE(object), false);
    if (is_new) type->second = PyType_IsSubtype(Py_TYPE(object), known->module) != 0;
    if (type->second && PyList_Append(found.get(), object) != 0) return nullptr;
  }
  return found.release();
}

}  // namespace sonde::native
