#include "python/native/module_table.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/base/json_writer.h"
#include "engine/base/placement.h"
#include "engine/record/names.h"
#include "python/native/callbacks.h"
#include "python/native/ownership.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace detail {
KnownModule g_known_modules[kKnownModules];
SONDE_HOT_DATA constinit ModuleCounts g_module_counts;
}  // namespace detail

namespace {

constexpr int kMostModules = 5000;  // at most so many are looked at in one model
constexpr std::size_t kMostModels = 64;

// The modules that were called outside any other module.
std::vector<WeakObject>& models() {
  static auto* all = new std::vector<WeakObject>;
  return *all;
}

// Does the module or a submodule have parameters? One that only computes (a loss, an activation)
// has none.
bool has_parameters(PyObject* module, int& budget) {
  if (--budget < 0) return true;  // too many modules: assume that one of them has
  const Ref own(PyObject_GetAttr(module, torch_names()._parameters));
  if (!own) return drop_error(), false;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if (!PyDict_Check(own.get())) return true;  // a scripted module keeps them elsewhere
  while (PyDict_Next(own.get(), &at, &key, &value)) {
    if (value != Py_None) return true;
  }
  const Ref children(PyObject_GetAttr(module, torch_names()._modules));
  if (!children) return drop_error(), false;
  if (!PyDict_Check(children.get())) return true;
  at = 0;
  while (PyDict_Next(children.get(), &at, &key, &value)) {
    if (value != Py_None && has_parameters(value, budget)) return true;
  }
  return false;
}

// The name of `part` in `model`, such as "encoder.layer.3". "": `part` is not in `model`.
std::string path_of(PyObject* part, PyObject* model, int& budget) {
  if (--budget < 0) return {};
  const Ref children(PyObject_GetAttr(model, torch_names()._modules));
  if (!children) return drop_error(), std::string();
  if (!PyDict_Check(children.get())) return {};
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(children.get(), &at, &key, &value)) {
    if (value == Py_None || !PyUnicode_Check(key)) continue;
    const std::string below = value == part ? std::string() : path_of(part, value, budget);
    if (value != part && below.empty()) continue;
    std::string path;
    if (!with_utf8(key, [&](std::string_view text) { path = text; })) PyErr_Clear();
    if (!below.empty()) path.append(".").append(below);
    return path;
  }
  return {};
}

std::string name_below_models(PyObject* module) {
  for (const WeakObject& known : models()) {
    const Ref model = known.get();
    if (!model || model.get() == module) continue;
    int budget = kMostModules;
    std::string path = path_of(module, model.get(), budget);
    if (!path.empty()) return path;
  }
  return {};
}

void add_model(PyObject* module) {
  for (const WeakObject& known : models()) {
    if (known.is(module)) return;
  }
  std::erase_if(models(), [](const WeakObject& known) { return !known.get(); });
  if (models().size() == kMostModels) return;
  models().emplace_back().set(module);
  ++detail::g_module_counts.models;
}

std::uint32_t attributes(PyObject* module, std::string_view mode, const std::string& name) {
  base::JsonWriter members;
  members.string(base::kModeAttr);
  members.raw(':');
  members.string(mode);
  members.raw(",\"module\":");
  members.string(class_name(Py_TYPE(module)));
  if (!name.empty()) {
    members.raw(",\"name\":");
    members.string(name);
  }
  return record::intern(members.view());
}

}  // namespace

void know_model(PyObject* module) noexcept {
  const KeepError keep;
  add_model(module);
}

void learn_module(KnownModule& known, PyObject* module) noexcept {
  const KeepError keep;
  const bool new_here = !known.module.is(module);
  known.module.set(module);
  if (new_here) {
    ++detail::g_module_counts.learned;
    int budget = kMostModules;
    known.has_parameters = has_parameters(module, budget);
    known.snapshot_round = ~0u;
  }
  if (known.has_parameters) {
    if (new_here) add_model(module);
    known.owned = Ownership::instance().of(module);
    if (new_here || known.models != detail::g_module_counts.models) {
      const std::string name = name_below_models(module);
      known.train_attrs = attributes(module, base::kTrainMode, name);
      known.eval_attrs = attributes(module, base::kEvalMode, name);
    }
  }
  known.models = detail::g_module_counts.models;
  known.ownership = Ownership::version();
}

}  // namespace sonde::native
