#include "python/native/tensors.h"

#include <cstddef>
#include <string_view>

#include "python/native/callbacks.h"
#include "python/native/questions.h"
#include "python/native/tensor_types.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

using snapshot::Element;

// Names of attributes of arrays and variables of other frameworks than torch, interned once.
struct Names {
#define SONDE_NAME(x) PyObject* x = PyUnicode_InternFromString(#x)
  SONDE_NAME(shape);
  SONDE_NAME(dtype);
  SONDE_NAME(name);
  SONDE_NAME(value);
  SONDE_NAME(numpy);
  SONDE_NAME(asarray);
  SONDE_NAME(astype);
  SONDE_NAME(view);
  SONDE_NAME(__dlpack_device__);
  SONDE_NAME(__module__);
#undef SONDE_NAME
};
const Names& names() {
  static const auto* all = new Names;
  return *all;
}

bool of_keras_or_tensorflow(PyObject* object) noexcept {
  const Ref module = ask(reinterpret_cast<PyObject*>(Py_TYPE(object)), names().__module__);
  const char* text =
      module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8(module.get()) : nullptr;
  if (text == nullptr) return drop_error(), false;
  const std::string_view name(text);
  return name.starts_with("keras") || name.starts_with("tensorflow") ||
         name.starts_with("tf_keras");
}

}  // namespace

const char* readable_text(Readable readable) noexcept {
  switch (readable) {
    case Readable::kYes:
      return "yes";
    case Readable::kElsewhere:
      return "elsewhere";
    case Readable::kMeta:
      return "meta";
    case Readable::kSparse:
      return "sparse";
    case Readable::kQuantised:
      return "quantised";
    case Readable::kUnknown:
      break;
  }
  return "unknown";
}

void TensorReader::clear() noexcept {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  held_ = Ref();
  parts_ = false;
  data_ = nullptr;
  rank_ = 0;
  many_.clear();
  device_type_ = device_index_ = 0;
  dtype_ = "unknown";
  readable_ = Readable::kUnknown;
}

Readable TensorReader::read(PyObject* object) noexcept {
  const KeepError keep;
  clear();
  try {
    readable_ = is_torch_tensor(object) ? read_torch(object) : read_other(object, 0);
  } catch (...) {  // no memory for a name or a list of sizes
    readable_ = Readable::kUnknown;
  }
  drop_error();
  return readable_;
}

snapshot::Tensor TensorReader::tensor() const noexcept {
  return {data_, element_, rank_ + (parts_ ? 1 : 0), sizes(), strides()};
}

std::int64_t TensorReader::elements() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : shape()) count *= size;
  return count;
}

bool TensorReader::set_rank(std::size_t rank) {
  rank_ = static_cast<std::uint32_t>(rank);
  if (rank > kInline) many_.resize(2 * (rank + 1));
  return true;
}

// The two parts of a complex number are next to each other in memory.
bool TensorReader::add_parts(bool complex) noexcept {
  parts_ = complex;
  if (!complex) return true;
  for (std::size_t i = 0; i < rank_; ++i) strides()[i] *= 2;
  sizes()[rank_] = 2;
  strides()[rank_] = 1;
  return true;
}

void TensorReader::name_dtype(PyObject* object) {
  const Ref dtype = ask(object, names().dtype);
  if (!dtype) return;
  // The dtype of NumPy, JAX and TensorFlow is an object with a name; that of Keras is the name.
  const Ref named = PyUnicode_Check(dtype.get()) ? Ref() : ask(dtype.get(), names().name);
  PyObject* text = named ? named.get() : dtype.get();
  const char* utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (utf8 != nullptr) dtype_ = utf8;
  drop_error();
}

void TensorReader::learn_shape(PyObject* object) {
  const Ref shape = ask(object, names().shape);
  const Ref sizes_of = shape ? Ref(PySequence_Tuple(shape.get())) : Ref();
  drop_error();
  if (!sizes_of) return;
  set_rank(static_cast<std::size_t>(PyTuple_GET_SIZE(sizes_of.get())));
  if (!integers(sizes_of.get(), sizes(), rank_)) rank_ = 0;
}

// True: the object says that it is not in the host's memory.
bool TensorReader::read_device(PyObject* object) {
  const Ref device = ask_method(object, names().__dlpack_device__);
  if (!device || !PyTuple_Check(device.get()) || PyTuple_GET_SIZE(device.get()) != 2) return false;
  const long type = PyLong_AsLong(PyTuple_GET_ITEM(device.get(), 0));
  const long index = PyLong_AsLong(PyTuple_GET_ITEM(device.get(), 1));
  if (PyErr_Occurred() != nullptr) return drop_error(), false;
  const bool host = is_host(type);
  device_type_ = host ? static_cast<int>(kDlCpu) : static_cast<int>(type);
  device_index_ = host ? 0 : static_cast<int>(index);
  return !host;
}

Readable TensorReader::read_other(PyObject* object, int depth) {
  if (PyObject_CheckBuffer(object)) {
    const Readable found = read_buffer(object);
    if (found == Readable::kYes) return found;
  }
  name_dtype(object);
  learn_shape(object);
  // A variable is read through the tensor it holds, which in Keras may be a tensor of torch.
  if (depth < 3 && of_keras_or_tensorflow(object)) {
    Ref value = ask(object, names().value);
    if (value && PyCallable_Check(value.get()) && Py_TYPE(value.get()) == &PyMethod_Type)
      value = Ref(PyObject_CallNoArgs(value.get()));
    drop_error();
    if (value && value.get() != object) {
      return is_torch_tensor(value.get()) ? read_torch(value.get())
                                          : read_other(value.get(), depth + 1);
    }
  }
  if (dtype_ == "unknown") return Readable::kUnknown;  // not a tensor
  if (read_device(object)) return Readable::kElsewhere;
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (numpy == nullptr) return Readable::kUnknown;
  Ref array = ask_method(object, names().numpy);
  if (!array) array = Ref(PyObject_CallMethodOneArg(numpy, names().asarray, object));
  drop_error();
  return array ? read_array(array.get()) : Readable::kUnknown;
}

Readable TensorReader::read_buffer(PyObject* object) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO) != 0)
    return drop_error(), Readable::kUnknown;
  has_buffer_ = true;
  dtype_ = buffer_.format != nullptr ? name_of_format(buffer_.format) : "unknown";
  if (dtype_ == "unknown") name_dtype(object);
  const Readable found = take_buffer();
  if (found != Readable::kYes) {
    PyBuffer_Release(&buffer_);
    has_buffer_ = false;
  }
  return found;
}

// Shape, strides and address out of buffer_, which holds values of dtype_.
Readable TensorReader::take_buffer() {
  const TensorType* type = find_type(dtype_);
  if (type == nullptr) return Readable::kUnknown;
  const auto size =
      static_cast<std::int64_t>(element_size(type->element)) * (type->complex ? 2 : 1);
  const bool swapped =
      buffer_.format != nullptr && (*buffer_.format == '>' || *buffer_.format == '!');
  if (buffer_.itemsize != size || (swapped && size > 1)) return Readable::kUnknown;
  set_rank(static_cast<std::size_t>(buffer_.ndim));
  for (std::uint32_t i = 0; i < rank_; ++i) {
    sizes()[i] = buffer_.shape[i];
    strides()[i] = buffer_.strides[i] / size;
    // Between the fields of a record there may be a fraction of an element.
    if (buffer_.strides[i] % size != 0 && buffer_.shape[i] > 1) return Readable::kUnknown;
  }
  element_ = type->element;
  data_ = buffer_.buf;
  device_type_ = kDlCpu;
  add_parts(type->complex);
  return Readable::kYes;
}

// For an array whose buffer cannot be used directly: of a type that the protocol cannot name, of
// another byte order, or with strides that are not a multiple of an element.
Readable TensorReader::read_array(PyObject* array) {
  if (!PyObject_CheckBuffer(array)) return Readable::kUnknown;
  if (read_buffer(array) == Readable::kYes) return Readable::kYes;
  name_dtype(array);
  const std::string name = dtype_;
  const TensorType* type = find_type(name);
  if (type == nullptr) return Readable::kUnknown;
  Ref plain;
  if (type->element == Element::kBFloat16 || element_size(type->element) == 1) {
    const Ref bits(PyUnicode_FromString(element_size(type->element) == 1 ? "u1" : "u2"));
    if (bits) plain = Ref(PyObject_CallMethodOneArg(array, names().view, bits.get()));
  } else {
    const Ref native(PyUnicode_FromString(name.c_str()));
    if (native) plain = Ref(PyObject_CallMethodOneArg(array, names().astype, native.get()));
  }
  if (!plain || PyObject_GetBuffer(plain.get(), &buffer_, PyBUF_RECORDS_RO) != 0)
    return drop_error(), Readable::kUnknown;
  has_buffer_ = true;
  return take_buffer();
}

}  // namespace sonde::native
