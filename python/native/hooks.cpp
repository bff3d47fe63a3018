// The parts of the framework hooks that run on every step. What they mean for the tree is decided
// in engine/hook; the Python side (sonde/hooks) puts them in place and takes them away.
#include "engine/hook/training.h"

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "engine/hook/level.h"
#include "engine/probe/gpu_clock.h"
#include "python/native/boundaries.h"
#include "python/native/cuda.h"
#include "python/native/hooks.h"
#include "python/native/training_call.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Mode;
using hook::Training;

// -- what torch is asked; set while its hook is in place --

struct Torch {
  PyObject* is_grad_enabled = nullptr;
  PyObject* graph_task = nullptr;  // -1 outside of a backward
  PyObject* cuda = nullptr;        // the module torch.cuda, nullptr in builds without
  PyObject* raw_stream = nullptr;
  PyObject* device = nullptr;        // number of the current one
  PyObject* memory_stats = nullptr;  // of a device, as torch counts
} g_torch;

PyObject* g_training_name = nullptr;  // "training", "_parameters", ...: interned for lookups
PyObject* g_parameters_name = nullptr;
PyObject* g_modules_name = nullptr;
PyObject* g_initialized_name = nullptr;

bool is_true(PyObject* function, bool otherwise) {
  if (function == nullptr) return otherwise;
  const Ref result(PyObject_CallNoArgs(function));
  if (!result) PyErr_Clear();
  return result ? result.get() == Py_True : otherwise;
}

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

// -- modules --

constexpr int kMostModules = 500;  // looked at for a parameter

bool in_training_mode(PyObject* module) {
  const Ref flag(PyObject_GetAttr(module, g_training_name));
  if (!flag) PyErr_Clear();
  return !flag || flag.get() != Py_False;
}

// A module with parameters, its own or a submodule's. Something that only computes (a loss, an
// activation) has none.
bool has_parameters(PyObject* module, int& budget) {
  if (--budget < 0) return true;  // a web of modules: somewhere in there will be one
  const Ref own(PyObject_GetAttr(module, g_parameters_name));
  if (!own) return PyErr_Clear(), false;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  if (!PyDict_Check(own.get())) return true;  // a scripted module keeps them elsewhere
  while (PyDict_Next(own.get(), &at, &key, &value)) {
    if (value != Py_None) return true;
  }
  const Ref children(PyObject_GetAttr(module, g_modules_name));
  if (!children) return PyErr_Clear(), false;
  if (!PyDict_Check(children.get())) return true;
  at = 0;
  while (PyDict_Next(children.get(), &at, &key, &value)) {
    if (value != Py_None && has_parameters(value, budget)) return true;
  }
  return false;
}

// A module without keeping it alive.
class WeakModule {
 public:
  bool is(PyObject* module) const {
    return reference_ != nullptr &&
           reinterpret_cast<PyWeakReference*>(reference_)->wr_object == module;
  }
  void set(PyObject* module) {
    if (is(module)) return;
    PyObject* made = PyWeakref_NewRef(module, nullptr);  // may collect, and so come back here
    if (made == nullptr) PyErr_Clear();
    Py_XDECREF(std::exchange(reference_, made));
  }
  Ref get() const {
    if (reference_ == nullptr) return {};
    PyObject* module = PyWeakref_GetObject(reference_);
    return module == nullptr || module == Py_None ? Ref() : Ref(Py_NewRef(module));
  }

 private:
  PyObject* reference_ = nullptr;
};

// The models that ran last, by number of the stack they ran on: stacks are reused, threads are not.
struct LastModels {
  WeakModule any, training;
};
LastModels& last_models(const record::Lane& stack) {
  static std::deque<LastModels> all;
  if (stack.number >= all.size()) all.resize(stack.number + 1);
  return all[stack.number];
}

struct ThreadView {
  int forward_depth = 0;
  bool in_backward = false;
  const record::Lane* last_stack = nullptr;
  LastModels* last = nullptr;        // of that stack
  bool trains = false;               // has its last model been noted as one that trains,
  std::uint32_t snapshot_round = 0;  // and in which round?

  // Is it the model that ran last on this stack? It had parameters when it first did.
  bool knows(const record::Lane& stack, PyObject* module) const {
    return last_stack == &stack && last->any.is(module);
  }
};

constinit thread_local ThreadView t_view __attribute__((tls_model("initial-exec")));

bool another_trains(const record::Lane& stack, PyObject* module) {
  const Ref other = last_models(stack).training.get();
  return other && other.get() != module && in_training_mode(other.get());
}

// Recomputation of checkpointed activations on one of autograd's own threads: part of the backward
// that another thread is waiting for.
bool is_recomputation(const record::Lane& stack) {
  if (stack.depth.load(std::memory_order_relaxed) != 0 || g_torch.graph_task == nullptr)
    return false;
  const Ref task(PyObject_CallNoArgs(g_torch.graph_task));
  if (!task) return PyErr_Clear(), false;
  return PyLong_AsLong(task.get()) != -1;
}

struct HookedFunction {
  PyObject* function;
  vectorcallfunc original;
};
std::vector<HookedFunction> g_hooked;
HookedFunction g_first = {};  // mostly the only one: torch.nn.Module.__call__

vectorcallfunc original_of(PyObject* function) {
  for (const HookedFunction& hooked : g_hooked) {
    if (hooked.function == function) return hooked.original;
  }
  return PyVectorcall_Function(function);
}

void remember(const record::Lane& stack, PyObject* module, bool training) {
  ThreadView& view = t_view;
  if (view.knows(stack, module) && (!training || view.trains) &&
      view.snapshot_round == snapshot_round()) [[likely]]
    return;
  LastModels& last = last_models(stack);
  last.any.set(module);
  if (training) last.training.set(module);
  if (snapshots_wanted()) note_model(module, training);
  view.last = &last;
  view.trains = training;
  view.last_stack = &stack;
  view.snapshot_round = snapshot_round();
}

bool is_model(const record::Lane& stack, PyObject* module) {
  if (t_view.knows(stack, module)) [[likely]]
    return true;
  int budget = kMostModules;
  return has_parameters(module, budget);
}

SONDE_HOT PyObject* outermost_call(vectorcallfunc original, PyObject* function,
                                   PyObject* const* args, std::size_t flagged, PyObject* keys) {
  PyObject* module = args[0];
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr || !is_model(*stack, module) || is_recomputation(*stack))
    return original(function, args, flagged, keys);
  look_for_gpu();
  const bool training = in_training_mode(module);
  const Here here{*thread, *stack};
  Training& state = Training::of(here);
  const bool other = state.undecided() && !training && another_trains(*stack, module);
  remember(*stack, module, training);
  const record::ScopeHandle scope =
      state.begin_forward(here, training ? Mode::kTrain : Mode::kEval, other);
  stack_changed(*thread, *stack);
  t_view.forward_depth = 1;
  PyObject* result = original(function, args, flagged, keys);
  t_view.forward_depth = 0;
  with_training([&](Training& now, Here there) { now.end(there, scope, result == nullptr); });
  return result;
}

SONDE_HOT PyObject* call_module(PyObject* function, PyObject* const* args, std::size_t flagged,
                                PyObject* keys) {
  const vectorcallfunc original =
      function == g_first.function ? g_first.original : original_of(function);
  if (t_view.forward_depth != 0 || PyVectorcall_NARGS(flagged) < 1)
    return original(function, args, flagged, keys);
  return outermost_call(original, function, args, flagged, keys);
}

void set_vectorcall(PyObject* function, vectorcallfunc call) {
#if PY_VERSION_HEX >= 0x030C0000
  PyFunction_SetVectorcall(reinterpret_cast<PyFunctionObject*>(function), call);
#else
  reinterpret_cast<PyFunctionObject*>(function)->vectorcall = call;
#endif
}

// hook_module_call(function): calls of this function object are forwards from now on.
PyObject* hook_module_call(PyObject*, PyObject* function) {
  if (!PyFunction_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "a Python function is needed");
    return nullptr;
  }
  for (const HookedFunction& hooked : g_hooked) {
    if (hooked.function == function) Py_RETURN_FALSE;
  }
  g_hooked.push_back({Py_NewRef(function), PyVectorcall_Function(function)});
  g_first = g_hooked.front();
  set_vectorcall(function, call_module);
  Py_RETURN_TRUE;
}

PyObject* unhook_module_calls(PyObject*, PyObject*) {
  for (const HookedFunction& hooked : g_hooked) {
    // Unless somebody else has put his own there since: that one calls ours, which finds nothing to
    // do.
    if (PyVectorcall_Function(hooked.function) == call_module)
      set_vectorcall(hooked.function, hooked.original);
    Py_DECREF(hooked.function);
  }
  g_hooked.clear();
  Py_RETURN_NONE;
}

// -- backward --

// Stands in for torch.autograd.backward.
struct TimedFunction {
  PyObject_HEAD vectorcallfunc call;
  PyObject* original;
  PyObject* dict;
};

SONDE_HOT PyObject* call_backward(PyObject* self, PyObject* const* args, std::size_t flagged,
                                  PyObject* keys) {
  PyObject* original = reinterpret_cast<TimedFunction*>(self)->original;
  // Another tool may have kept one of ours from an earlier session: the outermost counts.
  if (g_hooked.empty() || t_view.in_backward)
    return PyObject_Vectorcall(original, args, flagged, keys);
  record::ScopeHandle scope;
  with_training([&](Training& training, Here here) { scope = training.begin_backward(here); });
  t_view.in_backward = true;
  PyObject* result = PyObject_Vectorcall(original, args, flagged, keys);
  t_view.in_backward = false;
  if (scope) {
    with_training(
        [&](Training& training, Here here) { training.end(here, scope, result == nullptr); });
  }
  note_backward();
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

// Pickled like the function it stands for: by name.
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
  PyTypeObject type = {};
  type.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = "sonde._core.timed_function";
  type.tp_basicsize = sizeof(TimedFunction);
  type.tp_dealloc = timed_dealloc;
  type.tp_vectorcall_offset = offsetof(TimedFunction, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_getattro = PyObject_GenericGetAttr;
  type.tp_setattro = PyObject_GenericSetAttr;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                  Py_TPFLAGS_DISALLOW_INSTANTIATION;
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
  Training::on_step_end(g_torch.memory_stats != nullptr ? note_memory_peak : nullptr);
  if (g_torch.cuda == nullptr) probe::gpu_stop();
  Py_RETURN_NONE;
}

PyObject* begin_training(PyObject*, PyObject* steps_per_epoch) {
  const unsigned long steps = PyLong_AsUnsignedLong(steps_per_epoch);
  if (steps == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr) return nullptr;
  Training::begin_session(static_cast<std::uint32_t>(steps));
  Py_RETURN_NONE;
}

PyObject* gpu_events_made(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(probe::gpu_events_made());
}

PyMethodDef g_functions[] = {
    {"hook_module_call", hook_module_call, METH_O,
     "hook_module_call(function)\n--\n\nCalls of this function object are forwards from now on; "
     "false if they were before."},
    {"unhook_module_calls", unhook_module_calls, METH_NOARGS,
     "unhook_module_calls()\n--\n\nEverything hook_module_call did is undone."},
    {"time_backward", time_backward, METH_O,
     "time_backward(original)\n--\n\nA callable that does what original does inside a backward "
     "span."},
    {"know_torch", as_method(know_torch), METH_FASTCALL,
     "know_torch(is_grad_enabled, graph_task, cuda, raw_stream, device, memory_stats)\n--\n\nWhat "
     "the hooks ask of "
     "torch; each may be None."},
    {"begin_training", begin_training, METH_O,
     "begin_training(steps_per_epoch)\n--\n\nEpochs and steps are counted from zero."},
    {"gpu_events_made", gpu_events_made, METH_NOARGS,
     "gpu_events_made()\n--\n\nHow many CUDA events the pool has had to create."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

hook::Hint evaluation_hint(const record::Lane& stack) noexcept {
  const KeepError keep;
  if (!is_true(g_torch.is_grad_enabled, true)) return hook::Hint::kGradientsOff;
  if (hook::epochs_announced(stack)) return hook::Hint::kNone;
  const Ref module = last_models(stack).any.get();
  return module && !in_training_mode(module.get()) ? hook::Hint::kModelInEval : hook::Hint::kNone;
}

void look_for_gpu() noexcept {
  if (g_torch.cuda == nullptr || probe::gpu_running()) [[likely]]
    return;
  const Ref initialized(PyObject_GetAttr(g_torch.cuda, g_initialized_name));
  if (!initialized) PyErr_Clear();
  if (initialized.get() != Py_True) return;
  if (!probe::gpu_start(current_stream)) {
    Py_CLEAR(g_torch.cuda);
  } else if (g_torch.device != nullptr) {
    const Ref device(PyObject_CallNoArgs(g_torch.device));
    const long number = device ? PyLong_AsLong(device.get()) : -1;
    if (number < 0) return PyErr_Clear();
    gpu_appeared(static_cast<int>(number));
  }
}

bool current_cuda_stream(int device, void** stream) noexcept {
  return current_stream(device, stream);
}

StepClaim::StepClaim(bool wanted) noexcept {
  if (!wanted || g_hooked.empty()) return;
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr) return;
  training_ = &Training::of({*thread, *stack});
  training_->claim_steps(true);
}

StepClaim::~StepClaim() {
  if (training_ != nullptr) training_->claim_steps(false);
}

bool hooks_in_place() noexcept { return !g_hooked.empty(); }

void settle_hooks() noexcept {
  if (record::ThreadState* thread = record::this_thread()) Training::settle_all(*thread);
}

bool add_hooks(PyObject* module) {
  g_training_name = PyUnicode_InternFromString("training");
  g_parameters_name = PyUnicode_InternFromString("_parameters");
  g_modules_name = PyUnicode_InternFromString("_modules");
  g_initialized_name = PyUnicode_InternFromString("_initialized");
  return g_training_name != nullptr && g_parameters_name != nullptr && g_modules_name != nullptr &&
         g_initialized_name != nullptr && PyType_Ready(&g_timed_type) == 0 &&
         PyModule_AddFunctions(module, g_functions) == 0;
}

}  // namespace sonde::native
