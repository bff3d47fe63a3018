// Tensors of torch: by DLPack's exchange interface where torch has it, else by their attributes.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "python/native/callbacks.h"
#include "python/native/questions.h"
#include "python/native/tensor_types.h"
#include "python/native/tensors.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

struct TorchType {
  PyObject* dtype;  // these live as long as torch
  std::string name;
  const TensorType* type;
};

// Is it a view whose values are the negatives of its memory? Asking torch takes longer than
// everything else here, and the answer does not change, so it is asked once for a parameter.
bool is_negative(const Torch& torch, PyObject* object, const void* data) {
  constexpr std::size_t kMany = 65536;
  static std::unordered_map<PyObject*, const void*> positive;  // guarded by the GIL
  if (Py_TYPE(object) != torch.parameter) return says_true(object, torch_names().is_neg);
  const auto known = positive.find(object);
  if (known != positive.end() && known->second == data) return false;
  if (says_true(object, torch_names().is_neg)) return true;
  if (positive.size() >= kMany) positive.clear();
  positive[object] = data;
  return false;
}

const TorchType* torch_type(PyObject* dtype) {
  // Guarded by the GIL. Pointers to its elements stay valid.
  static auto* all = new std::deque<TorchType>;
  for (const TorchType& known : *all)
    if (known.dtype == dtype) return &known;
  const Ref text(PyObject_Str(dtype));
  const char* full = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (full == nullptr) return drop_error(), nullptr;
  std::string name(full);
  if (name.starts_with("torch.")) name.erase(0, 6);
  const TensorType* type = find_type(name);
  all->push_back({Py_NewRef(dtype), std::move(name), type});
  return &all->back();
}

constexpr struct {
  std::string_view name;
  DlDevice number;
} kDevices[] = {
    {"cpu", kDlCpu}, {"cuda", kDlCuda}, {"mps", kDlMetal}, {"hip", kDlRocm}, {"xpu", kDlOneApi}};

}  // namespace

// False: the tensor has to be read through its attributes.
bool TensorReader::read_exchange(PyObject* object) {
  const Torch& torch = *native::torch();
  if (torch.exchange == nullptr || !torch.is_plain(object)) return false;
  DlTensor tensor{};
  if (torch.exchange->describe(object, &tensor) != 0) return drop_error(), false;
  const TensorType* type = find_type(tensor);
  if (type == nullptr || tensor.strides == nullptr || is_negative(torch, object, tensor.data))
    return false;
  if (!set_rank(static_cast<std::size_t>(tensor.rank))) return false;
  std::copy_n(tensor.sizes, rank_, sizes());
  std::copy_n(tensor.strides, rank_, strides());
  data_ = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.data == nullptr && elements() != 0) return false;
  dtype_ = type->name;
  element_ = type->element;
  device_type_ = tensor.device_type;
  device_index_ = tensor.device_index;
  if (device_type_ == kDlCpu) {
    // A detached view keeps this memory, even if the tensor is given another. On a device that is
    // not needed: its memory is read in the order of its stream, before the allocator can reuse it.
    held_ = ask_method(object, torch_names().detach);
    if (!held_) return false;
  }
  readable_ = device_type_ == kDlCpu ? Readable::kYes : Readable::kElsewhere;
  return true;
}

Readable TensorReader::read_torch(PyObject* object) {
  const TorchNames& names = torch_names();
  const Torch& torch = *native::torch();
  if (read_exchange(object)) return readable_;
  const Ref dtype = ask(object, names.dtype);
  const TorchType* type = dtype ? torch_type(dtype.get()) : nullptr;
  if (type == nullptr) return Readable::kUnknown;
  dtype_ = type->name;
  const Ref shape = ask(object, names.shape);
  if (!shape || !PyTuple_Check(shape.get())) return Readable::kUnknown;
  set_rank(static_cast<std::size_t>(PyTuple_GET_SIZE(shape.get())));
  if (!integers(shape.get(), sizes(), rank_)) return Readable::kUnknown;
  const Readable where = read_torch_device(object);
  if (where == Readable::kMeta) return where;
  if (ask(object, names.layout).get() != torch.strided) return Readable::kSparse;
  if (type->type == nullptr)
    return ask(object, names.is_quantized).get() == Py_True ? Readable::kQuantised
                                                            : Readable::kUnknown;
  held_ = torch.is_plain(object) ? ask_method(object, names.detach) : Ref(Py_NewRef(object));
  // A view whose values are the negatives or conjugates of its memory: torch makes a plain copy.
  if (held_ && type->type->complex && says_true(held_.get(), names.is_conj))
    held_ = ask_method(held_.get(), names.resolve_conj);
  if (held_ && says_true(held_.get(), names.is_neg))
    held_ = ask_method(held_.get(), names.resolve_neg);
  if (!held_) return Readable::kUnknown;
  const Ref pointer = ask_method(held_.get(), names.data_ptr);
  const Ref stride = ask_method(held_.get(), names.stride);
  if (!pointer || !PyLong_Check(pointer.get()) || !integers(stride.get(), strides(), rank_))
    return Readable::kUnknown;
  data_ = PyLong_AsVoidPtr(pointer.get());
  // A subclass that only wraps other tensors has a shape and no memory.
  if (data_ == nullptr && elements() != 0) return Readable::kUnknown;
  element_ = type->type->element;
  add_parts(type->type->complex);
  return where;
}

Readable TensorReader::read_torch_device(PyObject* object) {
  const TorchNames& names = torch_names();
  if (ask(object, names.is_cpu).get() == Py_True) {
    device_type_ = kDlCpu;
    return Readable::kYes;
  }
  // Quicker than asking for the name of the device. ROCm says the same, and is not told apart here.
  if (ask(object, names.is_cuda).get() == Py_True) {
    const Ref number = ask_method(object, names.get_device);
    device_type_ = kDlCuda;
    device_index_ = number ? static_cast<int>(PyLong_AsLong(number.get())) : 0;
    drop_error();
    return Readable::kElsewhere;
  }
  if (ask(object, names.is_meta).get() == Py_True) return Readable::kMeta;
  const Ref device = ask(object, names.device);
  const Ref type = device ? ask(device.get(), names.type) : Ref();
  const Ref index = device ? ask(device.get(), names.index) : Ref();
  const char* text = type && PyUnicode_Check(type.get()) ? PyUnicode_AsUTF8(type.get()) : nullptr;
  for (const auto& known : kDevices)
    if (text != nullptr && known.name == text) device_type_ = known.number;
  if (index && PyLong_Check(index.get()))
    device_index_ = static_cast<int>(PyLong_AsLong(index.get()));
  drop_error();
  return Readable::kElsewhere;
}

}  // namespace sonde::native
