// Everything that the extension uses of torch. torch is neither linked nor imported: it is looked
// up among the modules that the program has imported. Needs the GIL.
#pragma once

#include <cstdint>

#include "python/native/python.h"

namespace sonde::native {

// DLPack's numbers for kinds of devices.
enum DlDevice : std::int32_t {
  kDlCpu = 1,
  kDlCuda = 2,
  kDlCudaHost = 3,
  kDlMetal = 8,
  kDlRocm = 10,
  kDlRocmHost = 11,
  kDlCudaManaged = 13,
  kDlOneApi = 14,
};
// Is it the host's memory, perhaps such as a device can see as well?
inline bool is_host(long device) noexcept {
  return device == kDlCpu || device == kDlCudaHost || device == kDlRocmHost ||
         device == kDlCudaManaged;
}

// DLPack's description of a tensor, and the function that fills it in. No Python object is made,
// which is several times quicker than reading attributes. In torch since 2.10.
struct DlTensor {
  void* data;  // on `device_type`, a DlDevice
  std::int32_t device_type, device_index;
  std::int32_t rank;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  const std::int64_t* sizes;
  const std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlExchange {
  std::uint32_t major, minor;
  DlExchange* earlier;
  void* unused[3];
  int (*describe)(void* object, DlTensor* out);
};

// Classes and constants. They live as long as the process does.
struct Torch {
  PyTypeObject* tensor_base;   // of every tensor, whatever its class
  PyTypeObject* tensor;        // torch.Tensor
  PyTypeObject* parameter;     // torch.nn.Parameter
  PyTypeObject* module;        // torch.nn.Module
  PyObject* strided;           // torch.strided, the layout of plain memory
  const DlExchange* exchange;  // nullptr: this torch has none

  bool is_tensor(PyObject* object) const noexcept {
    return PyObject_TypeCheck(object, tensor_base) != 0;
  }
  // Is it a tensor with plain memory? A tensor of another class may have any content.
  bool is_plain(PyObject* object) const noexcept {
    return Py_TYPE(object) == tensor || Py_TYPE(object) == parameter;
  }
};

// nullptr until the program has imported torch.
const Torch* torch() noexcept;

// The names of attributes of torch's objects, interned.
struct TorchNames {
#define SONDE_NAME(x) PyObject* x = PyUnicode_InternFromString(#x)
  // of modules
  SONDE_NAME(_parameters);
  SONDE_NAME(_modules);
  SONDE_NAME(training);
  // of optimizers
  SONDE_NAME(param_groups);
  SONDE_NAME(params);
  SONDE_NAME(grad_scale);
  // of record_function
  SONDE_NAME(name);
  // of tensors
  SONDE_NAME(grad);
  SONDE_NAME(grad_fn);
  SONDE_NAME(register_prehook);
  SONDE_NAME(data_ptr);
  SONDE_NAME(stride);
  SONDE_NAME(shape);
  SONDE_NAME(dtype);
  SONDE_NAME(layout);
  SONDE_NAME(detach);
  SONDE_NAME(device);
  SONDE_NAME(type);
  SONDE_NAME(index);
  SONDE_NAME(get_device);
  SONDE_NAME(is_cpu);
  SONDE_NAME(is_cuda);
  SONDE_NAME(is_meta);
  SONDE_NAME(is_quantized);
  SONDE_NAME(is_neg);
  SONDE_NAME(is_conj);
  SONDE_NAME(resolve_neg);
  SONDE_NAME(resolve_conj);
#undef SONDE_NAME
};
const TorchNames& torch_names();

// A tensor of torch, of whatever class.
inline bool is_torch_tensor(PyObject* object) noexcept {
  const Torch* known = torch();
  return known != nullptr && known->is_tensor(object);
}
// By isinstance, so also true for the loaders of accelerate, which only claim to be one.
bool is_data_loader(PyObject* object) noexcept;
// Is the module in training mode? True where it has no such attribute. torch_names() must have been
// called before. Hot.
bool in_training_mode(PyObject* module) noexcept;

// -- questions that are asked on every step; they need attach_torch() --

// Looks up what the questions need. False with an exception set.
bool attach_torch();
void detach_torch() noexcept;

// Are gradients on? True where torch is not attached. Hot.
bool gradients_on() noexcept;
// Is torch attached, so that hooks of it may be in place? Hot.
bool hooks_in_place() noexcept;
// Does autograd run on this thread right now?
bool in_backward_thread() noexcept;

// Was torch built for CUDA? Hot.
bool torch_has_cuda() noexcept;
// From now on torch counts as built without CUDA, until it is attached again.
void ignore_cuda() noexcept;
// Has the program begun to use CUDA? Asking never initializes it.
bool cuda_initialized() noexcept;
// The number of the current device; -1 when that is not known.
int current_cuda_device() noexcept;
// The stream that torch works on now; false when that is not known.
bool current_cuda_stream(int device, void** stream) noexcept;
// Does torch count the memory that it takes on its devices?
bool counts_cuda_memory() noexcept;
// The allocator's peak on the current device so far; -1 when that is not known. Takes torch tens of
// microseconds.
std::int64_t cuda_memory_peak() noexcept;

}  // namespace sonde::native
