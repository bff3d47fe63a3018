// What each source file adds to the extension. Its functions are in groups, which are submodules of
// _core; python/sonde/_core/ has their types, one stub file per group.
#pragma once

#include "python/native/python.h"

namespace nanobind {
class module_;
}

namespace sonde::native {

// In the raw C API, because these functions are called in loops. False with an exception set.
bool add_stacks();
bool add_scope(PyObject* core);
bool add_mark(PyObject* core);
bool add_loops(PyObject* core);

bool add_scope_functions(PyObject* scopes);
bool add_level_functions(PyObject* scopes);
bool add_level_marks(PyObject* scopes);
bool add_exceptions(PyObject* scopes);

bool add_torch_use(PyObject* torch);
bool add_modules(PyObject* torch);
bool add_symbolic(PyObject* torch);
bool add_backward(PyObject* torch);
bool add_optimizers(PyObject* torch);
bool add_ownership(PyObject* torch);
bool add_loader(PyObject* torch);

bool add_training_loops(PyObject* loops);
bool add_trainers(PyObject* loops);
bool add_own_loops(PyObject* loops);

bool add_jit_calls(PyObject* jax);

bool add_device_queue(PyObject* device);

bool add_boundaries(PyObject* snapshots);
bool add_known_models(PyObject* snapshots);
bool add_farewell(PyObject* snapshots);

// Everything else is in nanobind. These throw.
void add_session(nanobind::module_& session);
void add_attr_names(nanobind::module_& attrs);
void add_trace(nanobind::module_& trace);
void add_cuda(nanobind::module_& device);
void add_snapshots(nanobind::module_& snapshots);

}  // namespace sonde::native
