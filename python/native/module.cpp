#include "python/native/module.h"

#include "engine/session/engine.h"
#include "engine/spool/encode.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/farewell.h"
#include "python/native/frameworks.h"
#include "python/native/hooks.h"
#include "python/native/python.h"

NB_MODULE(_core, module) {
  using namespace sonde::native;
  module.doc() = "The engine: recording, session, read-back.";
  module.attr("__version__") = std::string(sonde::spool::kSdkVersion).c_str();
  sonde::session::Engine::instance();  // opens the gate: scopes are recorded from the import on
  PyObject* raw = module.ptr();
  if (!add_stacks(raw) || !add_scope(raw) || !add_mark(raw) || !add_loops(raw) || !add_hooks(raw) ||
      !add_loader(raw) || !add_optimizers(raw) || !add_trainers(raw) || !add_own_loops(raw) ||
      !add_device_queue(raw) || !add_jit_calls(raw) || !add_boundaries(raw) ||
      !add_exceptions(raw) || !add_frameworks(raw) || !add_seen(raw) || !add_farewell(raw))
    throw nanobind::python_error();
  add_session(module);
  add_snapshots(module);
  add_trace(module);
  add_measuring(module);
  add_cuda(module);
  add_blobs(module);
}
