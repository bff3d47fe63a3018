// The parts of the framework hooks that run on every step. What they mean for the tree is decided
// in engine/hook; the Python side (sonde/hooks) puts them in place and takes them away.
#include "engine/base/placement.h"
#include "engine/hook/training.h"

#include <dlfcn.h>

#include <cstddef>

#include "engine/hook/level.h"
#include "engine/probe/gpu_clock.h"
#include "python/native/boundaries.h"
#include "python/native/cuda.h"
#include "python/native/hooks.h"
#include "python/native/modules.h"
#include "python/native/ownership.h"
#include "python/native/training_call.h"

namespace sonde::native {

namespace {

using hook::Training;

// -- what torch is asked; set while its hook is in place --

struct Torch {
  PyObject* is_grad_enabled = nullptr;
  PyObject* graph_task = nullptr;  // -1 outside of a backward
  PyObject* cuda = nullptr;        // the module torch.cuda, nullptr in builds without
  PyObject* raw_stream = nullptr;
  PyObject* device = nullptr;        // number of the current one
  PyObject* memory_stats = nullptr;  // of a device, as torch counts
};
SONDE_HOT_DATA Torch g_torch;

PyObject* g_initialized_name = nullptr;  // interned

// What torch.is_grad_enabled() calls, without the interpreter; nullptr: it is not known here.
SONDE_HOT_DATA bool (*g_grad_mode)() = nullptr;

bool current_stream(int device, void** stream) noexcept {
  const KeepError keep;
  const Ref number(PyLong_FromLong(device));
  if (!number || g_torch.raw_stream == nullptr) return PyErr_Clear(), false;
  const Ref result(PyObject_CallOneArg(g_torch.raw_stream, number.get()));
  if (!result) return PyErr_Clear(), false;
  *stream = PyLong_AsVoidPtr(result.get());
  if (*stream == nullptr && PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  return true;
}

// The allocator's peak so far goes with the step. Asking costs torch tens of microseconds, so it is
// done as often as takes a thousandth of the time; other steps have none.
void note_memory_peak(std::uint32_t event) noexcept {
  static std::uint64_t next_ns = 0;
  const std::uint64_t start = base::monotonic_ns();
  if (start < next_ns || g_torch.memory_stats == nullptr || g_torch.device == nullptr) return;
  const KeepError keep;
  // Called in the middle of closing scopes: no finalizer may come in between.
  const bool collecting = PyGC_Disable() != 0;
  const Ref device(PyObject_CallNoArgs(g_torch.device));
  const Ref stats(device ? PyObject_CallOneArg(g_torch.memory_stats, device.get()) : nullptr);
  PyObject* value = stats.get();
  for (const char* key : {"allocated_bytes", "all", "peak"}) {
    value = value != nullptr && PyDict_Check(value) ? PyDict_GetItemString(value, key) : nullptr;
  }
  if (value != nullptr && PyLong_Check(value)) {
    const long long bytes = PyLong_AsLongLong(value);
    if (bytes >= 0) probe::gpu_attach_peak(event, bytes);
  }
  PyErr_Clear();
  if (collecting) PyGC_Enable();
  const std::uint64_t end = base::monotonic_ns();
  next_ns = end + 1000 * (end - start);
}

bool ask_for_gradients() noexcept {
  if (g_torch.is_grad_enabled == nullptr) return true;
  const Ref result(PyObject_CallNoArgs(g_torch.is_grad_enabled));
  if (!result) PyErr_Clear();
  return result.get() != Py_False;
}

// c10::GradMode::is_enabled(). It is trusted where it says what torch says.
void find_grad_mode() noexcept {
  g_grad_mode = nullptr;
  if (g_torch.is_grad_enabled == nullptr) return;
  static void* const library = ::dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  void* found = library != nullptr ? ::dlsym(library, "_ZN3c108GradMode10is_enabledEv") : nullptr;
  const auto grad_mode = reinterpret_cast<bool (*)()>(found);
  if (grad_mode != nullptr && grad_mode() == ask_for_gradients()) g_grad_mode = grad_mode;
}

// -- life of the hooks --

// know_torch(is_grad_enabled, graph_task, cuda, raw_stream, device, memory_stats): each or None.
PyObject* know_torch(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 6) {
    PyErr_SetString(PyExc_TypeError, "know_torch takes six arguments");
    return nullptr;
  }
  PyObject** targets[] = {&g_torch.is_grad_enabled, &g_torch.graph_task, &g_torch.cuda,
                          &g_torch.raw_stream,      &g_torch.device,     &g_torch.memory_stats};
  for (int i = 0; i < 6; ++i) {
    Py_XDECREF(*targets[i]);
    *targets[i] = args[i] == Py_None ? nullptr : Py_NewRef(args[i]);
  }
  find_grad_mode();
  Training::on_step_end(g_torch.memory_stats != nullptr ? note_memory_peak : nullptr);
  if (g_torch.cuda == nullptr) probe::gpu_stop();
  Py_RETURN_NONE;
}

PyObject* set_epoch_steps(PyObject*, PyObject* number) {
  const unsigned long steps = PyLong_AsUnsignedLong(number);
  if (steps == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) return nullptr;
  Training::set_steps_per_epoch(static_cast<std::uint32_t>(steps));
  Py_RETURN_NONE;
}

PyObject* gpu_events_made(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(probe::gpu_events_made());
}

// finish_hooks(): what they have opened ends here.
PyObject* finish_hooks(PyObject*, PyObject*) {
  if (record::ThreadState* thread = record::this_thread()) Training::finish_all(*thread);
  tell_epoch_ends();
  Py_RETURN_NONE;
}

PyObject* steps_taken(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Training::steps_taken());
}

PyObject* steps_skipped(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(Training::steps_skipped());
}

PyMethodDef g_functions[] = {
    {"know_torch", as_method(know_torch), METH_FASTCALL,
     "know_torch(is_grad_enabled, graph_task, cuda, raw_stream, device, memory_stats)\n--\n\nWhat "
     "the hooks ask of torch; each may be None."},
    {"set_epoch_steps", set_epoch_steps, METH_O,
     "set_epoch_steps(number)\n--\n\nHow many steps make an epoch where there is no loader."},
    {"finish_hooks", finish_hooks, METH_NOARGS,
     "finish_hooks()\n--\n\nWhat the hooks have opened ends here, on every thread."},
    {"steps_taken", steps_taken, METH_NOARGS,
     "steps_taken()\n--\n\nHow many steps the optimizers have taken."},
    {"steps_skipped", steps_skipped, METH_NOARGS,
     "steps_skipped()\n--\n\nHow many steps mixed precision has skipped."},
    {"gpu_events_made", gpu_events_made, METH_NOARGS,
     "gpu_events_made()\n--\n\nHow many CUDA events the pool has had to create."},
    {nullptr, nullptr, 0, nullptr},
};

SONDE_COLD void start_gpu() noexcept {
  if (!probe::gpu_start(current_stream)) {
    Py_CLEAR(g_torch.cuda);
  } else if (g_torch.device != nullptr) {
    const Ref device(PyObject_CallNoArgs(g_torch.device));
    const long number = device ? PyLong_AsLong(device.get()) : -1;
    if (number < 0) return PyErr_Clear();
    gpu_appeared(static_cast<int>(number));
  }
}

}  // namespace

SONDE_HOT bool gradients_on() noexcept {
  return g_grad_mode != nullptr ? g_grad_mode() : ask_for_gradients();
}

bool in_backward_thread() noexcept {
  if (g_torch.graph_task == nullptr) return false;
  const Ref task(PyObject_CallNoArgs(g_torch.graph_task));
  if (!task) return PyErr_Clear(), false;
  return PyLong_AsLong(task.get()) != -1;
}

hook::Hint evaluation_hint(const record::Lane& stack, bool fresh) noexcept {
  const KeepError keep;
  if (!gradients_on()) return hook::Hint::kGradientsOff;
  if (!fresh || hook::epochs_announced(stack)) return hook::Hint::kNone;
  return last_model_evaluates(stack) ? hook::Hint::kModelInEval : hook::Hint::kNone;
}

SONDE_HOT void look_for_gpu() noexcept {
  if (g_torch.cuda == nullptr || probe::gpu_running()) [[likely]]
    return;
  const Ref initialized(PyObject_GetAttr(g_torch.cuda, g_initialized_name));
  if (!initialized) PyErr_Clear();
  if (initialized.get() == Py_True) start_gpu();
}

bool current_cuda_stream(int device, void** stream) noexcept {
  return current_stream(device, stream);
}

StepClaim::StepClaim(bool wanted) noexcept {
  if (!wanted || !hooks_in_place()) return;
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr) return;
  training_ = &Training::of({*thread, *stack});
  training_->claim_steps(true);
}

StepClaim::~StepClaim() {
  if (training_ != nullptr) training_->claim_steps(false);
}

void settle_hooks(bool last) noexcept {
  if (record::Journal::instance().lane_count() == 0) return;  // nothing was ever recorded
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return;
  if (last) {
    Training::conclude_all(*thread);
  } else {
    Training::settle_all(*thread);
  }
}

bool add_hooks(PyObject* module) {
  g_initialized_name = PyUnicode_InternFromString("_initialized");
  return g_initialized_name != nullptr && PyModule_AddFunctions(module, g_functions) == 0 &&
         add_modules(module) && add_backward(module) && add_ownership(module);
}

}  // namespace sonde::native
