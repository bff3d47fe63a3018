// What hooks do with a scope besides entering and leaving it.
#include <cstdint>
#include <string_view>

#include "engine/probe/device_queue.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/mark.h"
#include "engine/record/stack.h"
#include "python/native/module.h"
#include "python/native/names.h"
#include "python/native/scope.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

// claim_levels(scope, epochs, steps, validation=False): while the scope is open, hooks open none of
// the claimed levels below it.
PyObject* claim_levels(PyObject*, PyObject* args) {
  PyObject* scope = nullptr;
  int epochs = 0, steps = 0, validation = 0;
  if (!PyArg_ParseTuple(args, "O!pp|p:claim_levels", &g_scope_type, &scope, &epochs, &steps,
                        &validation))
    return nullptr;
  as_scope(scope)->flags = static_cast<std::uint8_t>(
      (epochs != 0 ? record::kOwnsEpochs : 0) | (steps != 0 ? record::kOwnsSteps : 0) |
      (validation != 0 ? record::kOwnsValidation : 0));
  return Py_NewRef(scope);
}

// drop(scope): as if it had never been entered. False when something was recorded since.
PyObject* cancel(PyObject*, PyObject* object) {
  if (Py_TYPE(object) != &g_scope_type) {
    PyErr_SetString(PyExc_TypeError, "the argument must be a scope");
    return nullptr;
  }
  Scope* self = as_scope(object);
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr || !self->entered || !self->handle || self->outer != nullptr)
    Py_RETURN_FALSE;
  record::Lane* stack = self->handle.stack;
  const std::uint32_t event = self->gpu ? record::view_of(self->handle).start_event() : 0;
  if (record::next_sequence(*thread) != self->handle.sequence + 1 ||
      !record::cancel_scope(self->handle))
    Py_RETURN_FALSE;
  probe::is_queue_mark(event) ? probe::queue_release(event) : probe::gpu_release(event);
  self->handle = {};
  self->entered = false;
  stack_changed(*thread, *stack);
  Py_RETURN_TRUE;
}

// mark(scope, name, value, summary=False): a float on the span of this scope, even if it is closed.
PyObject* mark(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"scope", "name", "value", "summary", nullptr};
  PyObject *scope = nullptr, *name = nullptr;
  int summary = 0;
  record::MarkValue made;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!Ud|p:mark", const_cast<char**>(names),
                                   &g_scope_type, &scope, &name, &made.real, &summary))
    return nullptr;
  const Scope* self = as_scope(scope);
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr || !self->handle || record::is_past(self->handle.generation)) Py_RETURN_NONE;
  made.summary = summary != 0;
  made.span = self->handle.sequence;
  made.span_lists_it = self->handle.stack == stack && record::is_open(self->handle);
  made.name = name_id(name);
  if (made.name != 0) {
    record::write_mark(*thread, *stack, made);
  } else if (!with_utf8(name, [&](std::string_view utf8) {
               made.name_text = utf8;
               record::write_mark(*thread, *stack, made);
             })) {
    PyErr_Clear();
  }
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"cancel", cancel, METH_O,
     "cancel(scope)\n--\n\n"
     "As if it had never been entered; false when something was recorded in it since."},
    {"mark", as_method(mark), METH_VARARGS | METH_KEYWORDS,
     "mark(scope, name, value, summary=False)\n--\n\n"
     "Attaches a float to the span of this scope, even if it is closed."},
    {"claim_levels", claim_levels, METH_VARARGS,
     "claim_levels(scope, epochs, steps, validation=False)\n--\n\n"
     "While this scope is open, hooks open no epoch, no step, no validation below it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_scope_functions(PyObject* scopes) {
  return PyModule_AddFunctions(scopes, g_functions) == 0;
}

}  // namespace sonde::native
