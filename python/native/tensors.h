// Finds the memory of a Python tensor: of torch, NumPy, TensorFlow, Keras, JAX, or anything with
// the buffer protocol. The frameworks are neither linked nor imported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/snapshot/tensor.h"
#include "python/native/python.h"

namespace sonde::native {

enum class Readable : std::uint8_t {
  kYes,
  kElsewhere,  // in the memory of another device: see device_type and device_index
  kMeta,       // has a shape, but no values
  kSparse,     // or another layout that is not strided
  kQuantised,
  kUnknown,  // not a tensor, or of a type without plain memory or with unknown numbers
};

const char* readable_text(Readable readable) noexcept;

// Reads one object. The reader keeps the memory alive until it reads again, is cleared or
// destroyed, all of which need the GIL; measuring what tensor() returns does not. Another thread
// may meanwhile give a torch tensor other memory (`p.data = ...`).
class TensorReader {
 public:
  TensorReader() = default;
  ~TensorReader() { clear(); }
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  // Never raises. dtype() and shape() hold what could be found out, whatever the result is.
  Readable read(PyObject* object) noexcept;
  void clear() noexcept;

  Readable readable() const noexcept { return readable_; }
  // Values and layout. `data` points into the memory of the device, if that is known, and is null
  // otherwise. A complex tensor has one more dimension than shape().
  snapshot::Tensor tensor() const noexcept;
  const std::string& dtype() const noexcept { return dtype_; }  // "float32", "unknown"
  std::span<const std::int64_t> shape() const noexcept { return {sizes(), rank_}; }
  std::int64_t elements() const noexcept;
  // DLPack's numbers: 1 CPU, 2 CUDA, 10 ROCm, ...; 0: not known.
  int device_type() const noexcept { return device_type_; }
  int device_index() const noexcept { return device_index_; }

 private:
  static constexpr std::size_t kInline = 8;  // more dimensions are rare

  bool read_exchange(PyObject* object);
  Readable read_torch(PyObject* object);
  Readable read_torch_device(PyObject* object);
  Readable read_other(PyObject* object, int depth);
  bool read_device(PyObject* object);
  Readable read_buffer(PyObject* object);
  Readable take_buffer();
  Readable read_array(PyObject* array);
  void name_dtype(PyObject* object);
  void learn_shape(PyObject* object);
  bool set_rank(std::size_t rank);
  bool add_parts(bool complex) noexcept;
  std::int64_t* sizes() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  const std::int64_t* sizes() const noexcept { return many_.empty() ? few_.data() : many_.data(); }
  std::int64_t* strides() noexcept { return sizes() + (rank_ + 1); }
  const std::int64_t* strides() const noexcept { return sizes() + (rank_ + 1); }

  Readable readable_ = Readable::kUnknown;
  bool parts_ = false;  // complex: two values per element
  bool has_buffer_ = false;
  snapshot::Element element_ = snapshot::Element::kFloat32;
  int device_type_ = 0;
  int device_index_ = 0;
  std::uint32_t rank_ = 0;
  const void* data_ = nullptr;
  std::string dtype_ = "unknown";
  std::array<std::int64_t, 2 * (kInline + 1)>
      few_;  // sizes, then strides, each with room for parts
  std::vector<std::int64_t> many_;
  Ref held_;
  Py_buffer buffer_;
};

}  // namespace sonde::native
