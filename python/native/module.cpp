#include "python/native/module.h"

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <string>

#include "engine/codec/encode.h"
#include "engine/session/engine.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using Add = bool (*)(PyObject* group);

void add(const nb::module_& group, std::initializer_list<Add> parts) {
  for (const Add part : parts) {
    if (!part(group.ptr())) throw nb::python_error();
  }
}

void add_groups(nb::module_& core) {
  nb::module_ session = core.def_submodule("session", "The life of a session.");
  add_session(session);
  nb::module_ attrs = core.def_submodule("attrs", "Names of attributes, and values.");
  add_attr_names(attrs);
  nb::module_ trace = core.def_submodule("trace", "Reading the session back.");
  add_trace(trace);
  nb::module_ scopes =
      core.def_submodule("scopes", "What hooks do with scopes besides entering and leaving them.");
  add(scopes, {add_scope_functions, add_level_functions, add_level_marks, add_exceptions});
  nb::module_ torch = core.def_submodule("torch", "The hooks of PyTorch.");
  add(torch, {add_torch_use, add_modules, add_symbolic, add_backward, add_optimizers, add_ownership,
              add_loader});
  nb::module_ loops = core.def_submodule("loops", "What hooks say of training loops.");
  add(loops, {add_training_loops, add_trainers, add_own_loops});
  nb::module_ jax = core.def_submodule("jax", "Functions that jax.jit has made.");
  add(jax, {add_jit_calls});
  nb::module_ device = core.def_submodule("device", "The work of devices, and kernels on them.");
  add(device, {add_device_queue});
  add_cuda(device);
  nb::module_ snapshots = core.def_submodule("snapshots", "Statistics of what is trained.");
  add(snapshots, {add_boundaries, add_known_models, add_farewell});
  add_snapshots(snapshots);
}

}  // namespace

}  // namespace sonde::native

NB_MODULE(_core, module) {
  using namespace sonde::native;
  module.doc() = "The engine: recording, session, read-back.";
  module.attr("__version__") = std::string(sonde::codec::kSdkVersion).c_str();
  sonde::session::Engine::instance();  // opens the gate: scopes are recorded from the import on
  if (!add_stacks()) throw nb::python_error();
  add(module, {add_scope, add_mark, add_loops});
  add_groups(module);
}
