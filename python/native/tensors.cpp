#include "python/native/tensors.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace sonde::native {

namespace {

using snapshot::Element;

// -- types --

struct Type {
  std::string_view name;
  Element element;
  bool complex = false;
};

constexpr Type kTypes[] = {
    {"float32", Element::kFloat32},
    {"bfloat16", Element::kBFloat16},
    {"float16", Element::kFloat16},
    {"float64", Element::kFloat64},
    {"float8_e4m3fn", Element::kFloat8E4M3FN},
    {"float8_e5m2", Element::kFloat8E5M2},
    {"float8_e4m3fnuz", Element::kFloat8E4M3FNUZ},
    {"float8_e5m2fnuz", Element::kFloat8E5M2FNUZ},
    {"int64", Element::kInt64},
    {"int32", Element::kInt32},
    {"int16", Element::kInt16},
    {"int8", Element::kInt8},
    {"uint64", Element::kUInt64},
    {"uint32", Element::kUInt32},
    {"uint16", Element::kUInt16},
    {"uint8", Element::kUInt8},
    {"bool", Element::kBool},
    {"complex32", Element::kFloat16, true},
    {"complex64", Element::kFloat32, true},
    {"complex128", Element::kFloat64, true},
};

const Type* find_type(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

// Of the struct module's letters, for buffers that have no dtype (array.array, memoryview).
std::string_view name_of_format(const char* format) noexcept {
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return "unknown";
  switch (*format) {
    case 'f':
      return "float32";
    case 'd':
      return "float64";
    case 'e':
      return "float16";
    case '?':
      return "bool";
    case 'b':
      return "int8";
    case 'B':
      return "uint8";
    case 'h':
      return "int16";
    case 'H':
      return "uint16";
    case 'i':
      return "int32";
    case 'I':
      return "uint32";
    case 'l':
    case 'q':
      return "int64";
    case 'L':
    case 'Q':
      return "uint64";
    default:
      return "unknown";
  }
}

// -- what Python is asked --

// Interned once; the module holds them for good.
struct Names {
#define SONDE_NAME(x) PyObject* x = PyUnicode_InternFromString(#x)
  SONDE_NAME(data_ptr);
  SONDE_NAME(stride);
  SONDE_NAME(shape);
  SONDE_NAME(dtype);
  SONDE_NAME(name);
  SONDE_NAME(layout);
  SONDE_NAME(is_cpu);
  SONDE_NAME(detach);
  SONDE_NAME(is_cuda);
  SONDE_NAME(get_device);
  SONDE_NAME(is_meta);
  SONDE_NAME(is_quantized);
  SONDE_NAME(is_neg);
  SONDE_NAME(is_conj);
  SONDE_NAME(resolve_neg);
  SONDE_NAME(resolve_conj);
  SONDE_NAME(device);
  SONDE_NAME(type);
  SONDE_NAME(index);
  SONDE_NAME(value);
  SONDE_NAME(numpy);
  SONDE_NAME(asarray);
  SONDE_NAME(astype);
  SONDE_NAME(view);
  SONDE_NAME(__dlpack_device__);
  SONDE_NAME(__module__);
#undef SONDE_NAME
};
const Names* g_names = nullptr;

// Attribute or nullptr, without an exception.
Ref ask(PyObject* object, PyObject* name) noexcept {
  Ref found(PyObject_GetAttr(object, name));
  if (!found) PyErr_Clear();
  return found;
}

Ref call(PyObject* object, PyObject* method) noexcept {
  Ref found(PyObject_CallMethodNoArgs(object, method));
  if (!found) PyErr_Clear();
  return found;
}

bool says_true(PyObject* object, PyObject* method) noexcept {
  return call(object, method).get() == Py_True;
}

// Borrowed, nullptr where the program has not imported it.
PyObject* loaded(const char* module) noexcept {
  return PyDict_GetItemString(PyImport_GetModuleDict(), module);
}

bool integers(PyObject* tuple, std::int64_t* out, std::size_t count) noexcept {
  if (tuple == nullptr || !PyTuple_Check(tuple) ||
      static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)) != count)
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)));
    if (out[i] == -1 && PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  }
  return true;
}

// -- torch --

struct TorchType {
  PyObject* dtype;  // these live as long as torch
  std::string name;
  const Type* type;
};

// DLPack's description of a tensor, and the call that fills one in: no Python object is made, which
// is several times quicker than asking for the attributes. In torch since 2.10.
struct DlTensor {
  void* data;
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

struct Torch {
  PyTypeObject* tensor = nullptr;
  PyObject* strided = nullptr;
  const DlExchange* exchange = nullptr;  // may be null
  PyObject* plain = nullptr;             // the classes whose objects are nothing but memory
  PyObject* parameter = nullptr;
  std::vector<TorchType> types;
};

const DlExchange* exchange_of(PyTypeObject* tensor) noexcept {
  const Ref capsule(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor), "__dlpack_c_exchange_api__"));
  auto* found = static_cast<const DlExchange*>(
      capsule ? PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api") : nullptr);
  PyErr_Clear();
  while (found != nullptr && found->major != 1) found = found->earlier;
  return found != nullptr && found->describe != nullptr ? found : nullptr;
}

// By DLPack's code and width; null where more has to be asked.
const Type* find_type(const DlTensor& tensor) noexcept {
  struct Code {
    std::uint8_t code, bits;
    std::string_view name;
  };
  static constexpr Code kCodes[] = {
      {2, 32, "float32"},       {4, 16, "bfloat16"},
      {2, 16, "float16"},       {2, 64, "float64"},
      {10, 8, "float8_e4m3fn"}, {11, 8, "float8_e4m3fnuz"},
      {12, 8, "float8_e5m2"},   {13, 8, "float8_e5m2fnuz"},
      {0, 64, "int64"},         {0, 32, "int32"},
      {0, 16, "int16"},         {0, 8, "int8"},
      {1, 64, "uint64"},        {1, 32, "uint32"},
      {1, 16, "uint16"},        {1, 8, "uint8"},
      {6, 8, "bool"},
  };
  for (const Code& known : kCodes)
    if (known.code == tensor.code && known.bits == tensor.bits && tensor.lanes == 1)
      return find_type(known.name);
  return nullptr;
}

// Known from the first call after the program has imported torch; not destroyed.
Torch* torch() noexcept {
  static Torch* known = nullptr;
  if (known != nullptr) return known;
  PyObject* module = loaded("torch");
  if (module == nullptr) return nullptr;
  const Ref core(PyObject_GetAttrString(module, "_C"));
  Ref tensor(core ? PyObject_GetAttrString(core.get(), "TensorBase") : nullptr);
  if (!tensor) PyErr_Clear(), tensor = Ref(PyObject_GetAttrString(module, "Tensor"));
  Ref strided(PyObject_GetAttrString(module, "strided"));
  if (!tensor || !strided || !PyType_Check(tensor.get())) return PyErr_Clear(), nullptr;
  Ref plain(PyObject_GetAttrString(module, "Tensor"));
  const Ref nn(PyObject_GetAttrString(module, "nn"));
  Ref parameter(nn ? PyObject_GetAttrString(nn.get(), "Parameter") : nullptr);
  PyErr_Clear();
  known = new Torch;
  known->tensor = reinterpret_cast<PyTypeObject*>(tensor.release());
  known->strided = strided.release();
  if (plain && PyType_Check(plain.get()))
    known->exchange = exchange_of(reinterpret_cast<PyTypeObject*>(plain.get()));
  known->plain = plain.release();
  known->parameter = parameter.release();
  return known;
}

bool is_plain(const Torch& torch, PyObject* object) noexcept {
  auto* kind = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return kind == torch.plain || kind == torch.parameter;
}

// Does it mean the negative of its memory? To ask takes torch longer than all the rest, and the
// answer does not change: of a parameter it is asked once.
bool is_negative(const Torch& torch, PyObject* object, const void* data) {
  constexpr std::size_t kMany = 65536;
  static std::unordered_map<PyObject*, const void*> positive;  // guarded by the GIL
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != torch.parameter)
    return says_true(object, g_names->is_neg);
  const auto known = positive.find(object);
  if (known != positive.end() && known->second == data) return false;
  if (says_true(object, g_names->is_neg)) return true;
  if (positive.size() >= kMany) positive.clear();
  positive[object] = data;
  return false;
}

const TorchType* torch_type(Torch& torch, PyObject* dtype) {
  for (const TorchType& known : torch.types)
    if (known.dtype == dtype) return &known;
  const Ref text(PyObject_Str(dtype));
  const char* full = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (full == nullptr) return PyErr_Clear(), nullptr;
  std::string name(full);
  if (name.starts_with("torch.")) name.erase(0, 6);
  const Type* type = find_type(name);
  torch.types.push_back({Py_NewRef(dtype), std::move(name), type});
  return &torch.types.back();
}

constexpr struct {
  std::string_view name;
  int number;
} kDevices[] = {{"cpu", 1}, {"cuda", 2}, {"mps", 8}, {"hip", 10}, {"xpu", 14}};

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
  if (g_names == nullptr) g_names = new Names;
  try {
    Torch* known = torch();
    const bool theirs = known != nullptr && PyObject_TypeCheck(object, known->tensor);
    readable_ = theirs ? read_torch(object) : read_other(object, 0);
  } catch (...) {  // no memory for a name or a list of sizes
    readable_ = Readable::kUnknown;
  }
  PyErr_Clear();
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

// The parts of a complex number are neighbours in memory.
bool TensorReader::add_parts(bool complex) noexcept {
  parts_ = complex;
  if (!complex) return true;
  for (std::size_t i = 0; i < rank_; ++i) strides()[i] *= 2;
  sizes()[rank_] = 2;
  strides()[rank_] = 1;
  return true;
}

// False: the attributes have to be asked.
bool TensorReader::read_exchange(PyObject* object) {
  const Torch& torch = *native::torch();
  if (torch.exchange == nullptr || !is_plain(torch, object)) return false;
  DlTensor tensor{};
  if (torch.exchange->describe(object, &tensor) != 0) return PyErr_Clear(), false;
  const Type* type = find_type(tensor);
  constexpr int kDlCpu = 1;
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
    // Shares the memory: the object itself may be given another. A device's memory is read in the
    // order of its stream, before anybody else can get it.
    held_ = call(object, g_names->detach);
    if (!held_) return false;
  }
  readable_ = device_type_ == kDlCpu ? Readable::kYes : Readable::kElsewhere;
  return true;
}

Readable TensorReader::read_torch(PyObject* object) {
  const Names& names = *g_names;
  Torch& torch = *native::torch();
  if (read_exchange(object)) return readable_;
  const Ref dtype = ask(object, names.dtype);
  const TorchType* type = dtype ? torch_type(torch, dtype.get()) : nullptr;
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
  held_ = is_plain(torch, object) ? call(object, names.detach) : Ref(Py_NewRef(object));
  // A view that means the negative or conjugate of its memory: have torch write it out.
  if (held_ && type->type->complex && says_true(held_.get(), names.is_conj))
    held_ = call(held_.get(), names.resolve_conj);
  if (held_ && says_true(held_.get(), names.is_neg)) held_ = call(held_.get(), names.resolve_neg);
  if (!held_) return Readable::kUnknown;
  const Ref pointer = call(held_.get(), names.data_ptr);
  const Ref stride = call(held_.get(), names.stride);
  if (!pointer || !PyLong_Check(pointer.get()) || !integers(stride.get(), strides(), rank_))
    return Readable::kUnknown;
  data_ = PyLong_AsVoidPtr(pointer.get());
  // A subclass that only wraps others has a shape and no memory.
  if (data_ == nullptr && elements() != 0) return Readable::kUnknown;
  element_ = type->type->element;
  add_parts(type->type->complex);
  return where;
}

Readable TensorReader::read_torch_device(PyObject* object) {
  const Names& names = *g_names;
  if (ask(object, names.is_cpu).get() == Py_True) {
    device_type_ = 1;
    return Readable::kYes;
  }
  // Quicker than by its name. ROCm calls itself the same, and is told apart by nothing else here.
  if (ask(object, names.is_cuda).get() == Py_True) {
    const Ref number = call(object, names.get_device);
    device_type_ = 2;
    device_index_ = number ? static_cast<int>(PyLong_AsLong(number.get())) : 0;
    PyErr_Clear();
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
  PyErr_Clear();
  return Readable::kElsewhere;
}

// -- everything else --

void TensorReader::name_dtype(PyObject* object) {
  const Ref dtype = ask(object, g_names->dtype);
  if (!dtype) return;
  // NumPy, JAX and TensorFlow have types with a name, Keras has the name.
  const Ref named = PyUnicode_Check(dtype.get()) ? Ref() : ask(dtype.get(), g_names->name);
  PyObject* text = named ? named.get() : dtype.get();
  const char* utf8 = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (utf8 != nullptr) dtype_ = utf8;
  PyErr_Clear();
}

void TensorReader::learn_shape(PyObject* object) {
  const Ref shape = ask(object, g_names->shape);
  const Ref sizes_of = shape ? Ref(PySequence_Tuple(shape.get())) : Ref();
  PyErr_Clear();
  if (!sizes_of) return;
  set_rank(static_cast<std::size_t>(PyTuple_GET_SIZE(sizes_of.get())));
  if (!integers(sizes_of.get(), sizes(), rank_)) rank_ = 0;
}

// True: it says where it is, and that is not in the host's memory.
bool TensorReader::read_device(PyObject* object) {
  const Ref device = call(object, g_names->__dlpack_device__);
  if (!device || !PyTuple_Check(device.get()) || PyTuple_GET_SIZE(device.get()) != 2) return false;
  const long type = PyLong_AsLong(PyTuple_GET_ITEM(device.get(), 0));
  const long index = PyLong_AsLong(PyTuple_GET_ITEM(device.get(), 1));
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  // 3, 11, 13: memory of the host that a device can see as well
  const bool host = type == 1 || type == 3 || type == 11 || type == 13;
  device_type_ = host ? 1 : static_cast<int>(type);
  device_index_ = host ? 0 : static_cast<int>(index);
  return !host;
}

bool of_keras_or_tensorflow(PyObject* object) noexcept {
  const Ref module = ask(reinterpret_cast<PyObject*>(Py_TYPE(object)), g_names->__module__);
  const char* text =
      module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8(module.get()) : nullptr;
  if (text == nullptr) return PyErr_Clear(), false;
  const std::string_view name(text);
  return name.starts_with("keras") || name.starts_with("tensorflow") ||
         name.starts_with("tf_keras");
}

Readable TensorReader::read_other(PyObject* object, int depth) {
  if (PyObject_CheckBuffer(object)) {
    const Readable found = read_buffer(object);
    if (found == Readable::kYes) return found;
  }
  name_dtype(object);
  learn_shape(object);
  // A variable stands for the tensor it holds, which for Keras may be torch's.
  if (depth < 3 && of_keras_or_tensorflow(object)) {
    Ref value = ask(object, g_names->value);
    if (value && PyCallable_Check(value.get()) && Py_TYPE(value.get()) == &PyMethod_Type)
      value = Ref(PyObject_CallNoArgs(value.get()));
    PyErr_Clear();
    if (value && value.get() != object) {
      Torch* known = torch();
      const bool theirs = known != nullptr && PyObject_TypeCheck(value.get(), known->tensor);
      return theirs ? read_torch(value.get()) : read_other(value.get(), depth + 1);
    }
  }
  if (dtype_ == "unknown") return Readable::kUnknown;  // no tensor at all
  if (read_device(object)) return Readable::kElsewhere;
  PyObject* numpy = loaded("numpy");
  if (numpy == nullptr) return Readable::kUnknown;
  Ref array = call(object, g_names->numpy);
  if (!array) array = Ref(PyObject_CallMethodOneArg(numpy, g_names->asarray, object));
  PyErr_Clear();
  return array ? read_array(array.get()) : Readable::kUnknown;
}

Readable TensorReader::read_buffer(PyObject* object) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO) != 0)
    return PyErr_Clear(), Readable::kUnknown;
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
  const Type* type = find_type(dtype_);
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
    // Fields of a record need not lie a whole number of elements apart.
    if (buffer_.strides[i] % size != 0 && buffer_.shape[i] > 1) return Readable::kUnknown;
  }
  element_ = type->element;
  data_ = buffer_.buf;
  device_type_ = 1;
  add_parts(type->complex);
  return Readable::kYes;
}

// An array whose own buffer may not do: of a type the protocol cannot name, of foreign byte order,
// or unevenly laid out.
Readable TensorReader::read_array(PyObject* array) {
  if (!PyObject_CheckBuffer(array)) return Readable::kUnknown;
  if (read_buffer(array) == Readable::kYes) return Readable::kYes;
  name_dtype(array);
  const std::string name = dtype_;
  const Type* type = find_type(name);
  if (type == nullptr) return Readable::kUnknown;
  Ref plain;
  if (type->element == Element::kBFloat16 || element_size(type->element) == 1) {
    const Ref bits(PyUnicode_FromString(element_size(type->element) == 1 ? "u1" : "u2"));
    if (bits) plain = Ref(PyObject_CallMethodOneArg(array, g_names->view, bits.get()));
  } else {
    const Ref native(PyUnicode_FromString(name.c_str()));
    if (native) plain = Ref(PyObject_CallMethodOneArg(array, g_names->astype, native.get()));
  }
  if (!plain || PyObject_GetBuffer(plain.get(), &buffer_, PyBUF_RECORDS_RO) != 0)
    return PyErr_Clear(), Readable::kUnknown;
  has_buffer_ = true;
  return take_buffer();
}

}  // namespace sonde::native
