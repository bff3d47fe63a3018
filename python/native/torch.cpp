#include "python/native/torch.h"

#include <dlfcn.h>

#include <utility>

#include "engine/base/placement.h"
#include "python/native/callbacks.h"

namespace sonde::native {

namespace {

// Borrowed; nullptr where the program has not imported the module.
PyObject* imported(const char* module) noexcept {
  return PyDict_GetItemString(PyImport_GetModuleDict(), module);
}

Ref attribute(PyObject* object, const char* name) noexcept {
  Ref found(object != nullptr ? PyObject_GetAttrString(object, name) : nullptr);
  if (!found) drop_error();
  return found;
}

Ref class_in(PyObject* module, const char* name) noexcept {
  Ref found = attribute(module, name);
  return found && PyType_Check(found.get()) ? std::move(found) : Ref();
}

PyTypeObject* keep_class(Ref& found) noexcept {
  return reinterpret_cast<PyTypeObject*>(found.release());
}

const DlExchange* exchange_of(PyObject* tensor) noexcept {
  const Ref capsule = attribute(tensor, "__dlpack_c_exchange_api__");
  auto* found = static_cast<const DlExchange*>(
      capsule ? PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api") : nullptr);
  PyErr_Clear();
  while (found != nullptr && found->major != 1) found = found->earlier;
  return found != nullptr && found->describe != nullptr ? found : nullptr;
}

// nullptr unless everything is there: while torch is being imported, parts of it are missing.
const Torch* look_for_torch() noexcept {
  PyObject* here = imported("torch");
  if (here == nullptr) return nullptr;
  const Ref core = attribute(here, "_C"), nn = attribute(here, "nn");
  Ref tensor = class_in(here, "Tensor");
  Ref tensor_base = class_in(core.get(), "TensorBase");
  if (!tensor_base && tensor) tensor_base = Ref(Py_NewRef(tensor.get()));
  Ref parameter = class_in(nn.get(), "Parameter"), module = class_in(nn.get(), "Module");
  Ref strided = attribute(here, "strided");
  if (!tensor || !parameter || !module || !strided) return nullptr;
  const DlExchange* exchange = exchange_of(tensor.get());
  return new Torch{.tensor_base = keep_class(tensor_base),
                   .tensor = keep_class(tensor),
                   .parameter = keep_class(parameter),
                   .module = keep_class(module),
                   .strided = strided.release(),
                   .exchange = exchange};
}

// Functions of torch that are called on every step. Owned; nullptr where this torch has none.
struct Calls {
  // The C++ function that torch.is_grad_enabled() calls; nullptr: it was not found.
  bool (*grad_mode)();
  PyObject* is_grad_enabled;
  PyObject* graph_task;  // returns -1 outside a backward
  PyObject* cuda;        // the module torch.cuda; nullptr in builds without
  PyObject* raw_stream;
  PyObject* device;
  PyObject* memory_stats;
};
struct Attached {
  Calls calls;              // empty where torch is not attached
  PyObject* training_name;  // "training", interned
};
SONDE_HOT_DATA constinit Attached g_torch = {};

bool ask_for_gradients() noexcept {
  if (g_torch.calls.is_grad_enabled == nullptr) return true;
  const Ref result(PyObject_CallNoArgs(g_torch.calls.is_grad_enabled));
  if (!result) drop_error();
  return result.get() != Py_False;
}

// Looks up c10::GradMode::is_enabled(). It is used only if it agrees with torch.is_grad_enabled().
void find_grad_mode() noexcept {
  g_torch.calls.grad_mode = nullptr;
  if (g_torch.calls.is_grad_enabled == nullptr) return;
  static void* const library = ::dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  void* found = library != nullptr ? ::dlsym(library, "_ZN3c108GradMode10is_enabledEv") : nullptr;
  const auto grad_mode = reinterpret_cast<bool (*)()>(found);
  if (grad_mode != nullptr && grad_mode() == ask_for_gradients())
    g_torch.calls.grad_mode = grad_mode;
}

bool built_for_cuda(PyObject* torch) noexcept {
  const Ref version = attribute(torch, "version");
  const Ref cuda = attribute(version.get(), "cuda");
  return cuda && cuda.get() != Py_None;
}

}  // namespace

const Torch* torch() noexcept {
  static const Torch* known = nullptr;
  if (known == nullptr) [[unlikely]]
    known = look_for_torch();
  return known;
}

const TorchNames& torch_names() {
  static const auto* all = [] {
    const auto* made = new TorchNames;
    g_torch.training_name = made->training;
    return made;
  }();
  return *all;
}

bool is_data_loader(PyObject* object) noexcept {
  const Ref type = attribute(imported("torch.utils.data"), "DataLoader");
  const int is = type ? PyObject_IsInstance(object, type.get()) : 0;
  if (is < 0) drop_error();
  return is > 0;
}

SONDE_HOT bool in_training_mode(PyObject* module) noexcept {
  // Usually an entry of the module's dict, which is faster to read than an attribute.
  PyObject** dict = _PyObject_GetDictPtr(module);
  if (dict != nullptr && *dict != nullptr &&
      _PyType_Lookup(Py_TYPE(module), g_torch.training_name) == nullptr) [[likely]] {
    const PyObject* flag = PyDict_GetItemWithError(*dict, g_torch.training_name);
    if (flag != nullptr) return flag != Py_False;
  }
  const Ref flag(PyObject_GetAttr(module, g_torch.training_name));
  if (!flag) drop_error();
  return !flag || flag.get() != Py_False;
}

bool attach_torch() {
  detach_torch();
  PyObject* here = imported("torch");
  if (here == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "the program has not imported torch");
    return false;
  }
  g_torch.calls.is_grad_enabled = PyObject_GetAttrString(here, "is_grad_enabled");
  if (g_torch.calls.is_grad_enabled == nullptr) return false;
  const Ref core = attribute(here, "_C");
  g_torch.calls.graph_task = attribute(core.get(), "_current_graph_task_id").release();
  if (built_for_cuda(here)) {
    g_torch.calls.cuda = attribute(here, "cuda").release();
    g_torch.calls.raw_stream = attribute(core.get(), "_cuda_getCurrentRawStream").release();
    g_torch.calls.device = attribute(core.get(), "_cuda_getDevice").release();
    g_torch.calls.memory_stats = attribute(core.get(), "_cuda_memoryStats").release();
  }
  find_grad_mode();
  return true;
}

void detach_torch() noexcept {
  const Calls old = std::exchange(g_torch.calls, Calls{});
  for (PyObject* each : {old.is_grad_enabled, old.graph_task, old.cuda, old.raw_stream, old.device,
                         old.memory_stats})
    Py_XDECREF(each);
}

SONDE_HOT bool gradients_on() noexcept {
  return g_torch.calls.grad_mode != nullptr ? g_torch.calls.grad_mode() : ask_for_gradients();
}

bool in_backward_thread() noexcept {
  if (g_torch.calls.graph_task == nullptr) return false;
  const Ref task(PyObject_CallNoArgs(g_torch.calls.graph_task));
  if (!task) return PyErr_Clear(), false;
  return PyLong_AsLong(task.get()) != -1;
}

SONDE_HOT bool hooks_in_place() noexcept { return g_torch.calls.is_grad_enabled != nullptr; }

SONDE_HOT bool torch_has_cuda() noexcept { return g_torch.calls.cuda != nullptr; }

void ignore_cuda() noexcept { Py_CLEAR(g_torch.calls.cuda); }

bool cuda_initialized() noexcept {
  if (g_torch.calls.cuda == nullptr) return false;
  static PyObject* const name = PyUnicode_InternFromString("_initialized");
  const Ref initialized(PyObject_GetAttr(g_torch.calls.cuda, name));
  if (!initialized) drop_error();
  return initialized.get() == Py_True;
}

int current_cuda_device() noexcept {
  const Ref device(g_torch.calls.device != nullptr ? PyObject_CallNoArgs(g_torch.calls.device)
                                                   : nullptr);
  const long number = device ? PyLong_AsLong(device.get()) : -1;
  if (number < 0) return PyErr_Clear(), -1;
  return static_cast<int>(number);
}

bool current_cuda_stream(int device, void** stream) noexcept {
  const KeepError keep;
  const Ref number(PyLong_FromLong(device));
  if (!number || g_torch.calls.raw_stream == nullptr) return PyErr_Clear(), false;
  const Ref result(PyObject_CallOneArg(g_torch.calls.raw_stream, number.get()));
  if (!result) return PyErr_Clear(), false;
  *stream = PyLong_AsVoidPtr(result.get());
  if (*stream == nullptr && PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  return true;
}

bool counts_cuda_memory() noexcept {
  return g_torch.calls.memory_stats != nullptr && g_torch.calls.device != nullptr;
}

std::int64_t cuda_memory_peak() noexcept {
  if (!counts_cuda_memory()) return -1;
  const KeepError keep;
  const Ref device(PyObject_CallNoArgs(g_torch.calls.device));
  const Ref stats(device ? PyObject_CallOneArg(g_torch.calls.memory_stats, device.get()) : nullptr);
  PyObject* value = stats.get();
  for (const char* key : {"allocated_bytes", "all", "peak"}) {
    value = value != nullptr && PyDict_Check(value) ? PyDict_GetItemString(value, key) : nullptr;
  }
  const long long bytes = value != nullptr && PyLong_Check(value) ? PyLong_AsLongLong(value) : -1;
  PyErr_Clear();
  return bytes;
}

}  // namespace sonde::native
