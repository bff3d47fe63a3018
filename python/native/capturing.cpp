#include "python/native/capturing.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/base/attr_names.h"
#include "engine/base/clock.h"
#include "engine/base/json_writer.h"
#include "engine/record/journal.h"
#include "engine/session/engine.h"
#include "engine/snapshot/cuda.h"
#include "engine/snapshot/measure.h"
#include "engine/snapshot/safetensors.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/cuda.h"
#include "python/native/torch.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

// Bytes that a GPU measures in a nanosecond, at least. It passes over the memory twice.
constexpr std::uint64_t kCudaBytesPerNs = 200;

// A tensor of a class other than Tensor and Parameter.
bool may_be_anything(PyObject* object) {
  return is_torch_tensor(object) && !torch()->is_plain(object);
}

// How a tensor that was read stands in a blob.
snapshot::SafeTensor safe_tensor(std::string name, const TensorReader& reader) {
  const snapshot::Tensor tensor = reader.tensor();
  const auto shape = reader.shape();
  snapshot::SafeTensor safe{
      std::move(name), snapshot::safe_type(tensor.element), {shape.begin(), shape.end()}};
  if (tensor.rank == shape.size()) return safe;
  // A complex tensor.
  if (tensor.element == snapshot::Element::kFloat32) {
    safe.type = snapshot::kComplexFloat32;
  } else {
    safe.shape.push_back(2);
  }
  return safe;
}

// `numbers`: see Numbers in python/sonde/snapshots/fallback.py.
snapshot::Statistics from_numbers(nb::handle numbers) {
  const auto read = [numbers](auto& field, const char* name) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(numbers.attr(name));
  };
  snapshot::Statistics out;
  read(out.mean, "mean");
  read(out.std, "std");
  read(out.min, "min");
  read(out.max, "max");
  read(out.norm, "norm");
  read(out.count, "finite_count");
  read(out.nan_count, "nan_count");
  read(out.inf_count, "inf_count");
  read(out.zero_count, "zero_count");
  read(out.minus_inf_count, "minus_inf_count");
  const auto counts = nb::cast<std::vector<std::uint64_t>>(numbers.attr("counts"));
  if (counts.size() != out.counts.size()) throw nb::value_error("sixteen counts are needed");
  std::copy(counts.begin(), counts.end(), out.counts.begin());
  return out;
}

}  // namespace

void Capturing::describe(std::size_t i) {
  snapshot::Entry& entry = (*catalogue_)[i];
  const TensorReader& reader = reads_[i].reader;
  entry.dtype = reader.dtype();
  entry.shape.assign(reader.shape().begin(), reader.shape().end());
}

void Capturing::read_value(std::size_t i, PyObject* value, bool again) {
  Read& read = reads_[i];
  read.value = Ref(Py_NewRef(value));
  switch (read.reader.read(value)) {
    case Readable::kYes:
      break;
    case Readable::kElsewhere:
      if (again || is_torch_tensor(value)) {
        elsewhere_.push_back(i);
        break;
      }
      [[fallthrough]];
    default:
      if (!again) unresolved_.push_back(i);
  }
  if (!again) describe(i);
}

// (what to measure or None, attributes, dtype, shape)
void Capturing::take_resolved(std::size_t i, nb::handle resolved) {
  const auto parts = nb::cast<nb::tuple>(resolved);
  snapshot::Entry& entry = (*catalogue_)[i];
  base::JsonWriter attrs;
  encode_members(attrs, parts[1].ptr());
  entry.attrs = attrs.str();
  entry.dtype = nb::cast<std::string>(parts[2]);
  entry.shape = nb::cast<std::vector<std::int64_t>>(parts[3]);
  if (parts[0].is_none()) {
    reads_[i].reader.clear();
    return;
  }
  read_value(i, parts[0].ptr(), true);
  const TensorReader& reader = reads_[i].reader;
  reads_[i].whole =
      reader.dtype() == entry.dtype && std::ranges::equal(reader.shape(), entry.shape);
  if (reader.readable() == Readable::kYes || reader.readable() == Readable::kElsewhere) return;
  if (!entry.attrs.empty()) entry.attrs += ',';
  base::JsonWriter why;
  why.string(base::kUnavailableAttr);
  why.raw(':');
  why.string(readable_text(reader.readable()));
  entry.attrs += why.view();
}

void Capturing::read(nb::handle resolve) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    PyObject* tensor = parameters_[i].tensor.get();
    if (parameters_[i].sharded || may_be_anything(tensor)) {
      unresolved_.push_back(i);
    } else {
      read_value(i, tensor, false);
    }
  }
  if (unresolved_.empty()) return;
  nb::list tensors;
  for (const std::size_t i : unresolved_)
    tensors.append(nb::make_tuple(nb::handle(parameters_[i].tensor.get()), parameters_[i].sharded));
  const nb::list answers = nb::cast<nb::list>(resolve(tensors));
  if (answers.size() != unresolved_.size()) throw nb::value_error("one answer for each tensor");
  std::size_t next = 0;
  for (nb::handle answer : answers) take_resolved(unresolved_[next++], answer);
}

void Capturing::measure(unsigned threads) {
  std::vector<snapshot::Tensor> tensors;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (reads_[i].reader.readable() != Readable::kYes) continue;
    tensors.push_back(reads_[i].reader.tensor());
    which.push_back(i);
  }
  std::vector<snapshot::Statistics> found(tensors.size());
  if (!tensors.empty()) {
    const nb::gil_scoped_release release;
    snapshot::measure(tensors, found, threads);
  }
  for (std::size_t k = 0; k < which.size(); ++k) statistics_[which[k]] = found[k];
}

// Measures with our own kernels on the GPU, which fill in the statistics later. Returns the tensors
// that were left out.
std::vector<std::size_t> Capturing::measure_on_cuda(const std::vector<std::size_t>& here) {
  const TensorReader& first = reads_[here.front()].reader;
  if (first.device_type() != kDlCuda) return here;
  std::vector<snapshot::Tensor> tensors;
  std::vector<std::size_t> which, left;
  std::uint64_t bytes = 0;
  for (const std::size_t i : here) {
    const TensorReader& reader = reads_[i].reader;
    const snapshot::Tensor tensor = reader.tensor();
    if ((tensor.data == nullptr && reader.elements() != 0) || !snapshot::cuda_can_measure(tensor)) {
      left.push_back(i);
    } else {
      tensors.push_back(tensor);
      which.push_back(i);
      bytes += reader.elements() * 4;
    }
  }
  if (!begin_cuda(first.device_index(), tensors, std::move(which), capture_)) return here;
  Boundaries::instance().note_device_time(bytes / kCudaBytesPerNs);
  return left;
}

void Capturing::measure_elsewhere(nb::handle fallback) {
  while (!elsewhere_.empty()) {
    const TensorReader& first = reads_[elsewhere_.front()].reader;
    std::vector<std::size_t> here, others;
    for (const std::size_t i : elsewhere_) {
      const TensorReader& reader = reads_[i].reader;
      const bool same = reader.device_type() == first.device_type() &&
                        reader.device_index() == first.device_index();
      (same ? here : others).push_back(i);
    }
    here = measure_on_cuda(here);
    if (!here.empty()) {
      nb::list tensors;
      for (const std::size_t i : here) tensors.append(nb::handle(reads_[i].value.get()));
      const nb::list numbers = nb::cast<nb::list>(fallback(tensors));
      if (numbers.size() != here.size()) throw nb::value_error("one answer for each tensor");
      std::size_t next = 0;
      for (nb::handle each : numbers) statistics_[here[next++]] = from_numbers(each);
    }
    elsewhere_ = std::move(others);
  }
}

// A tensor on a GPU that we can use stays there for now; from other devices it is copied to the
// host. Empty: it cannot be read.
std::optional<snapshot::Placed> Capturing::place(Read& read) {
  snapshot::Placed placed;
  if (read.reader.readable() == Readable::kElsewhere) {
    const bool cuda = read.reader.device_type() == kDlCuda &&
                      current_cuda_stream(read.reader.device_index(), &placed.stream);
    // In the order of the file.
    Ref plain(PyObject_CallMethod(read.value.get(), cuda ? "contiguous" : "cpu", nullptr));
    if (!plain) return drop_error(), std::nullopt;  // no memory; the statistics need none
    read.value = std::move(plain);
    read.reader.read(read.value.get());
    if (cuda) placed.device = read.reader.device_index();
  }
  const Readable wanted = placed.device < 0 ? Readable::kYes : Readable::kElsewhere;
  if (read.reader.readable() != wanted) return std::nullopt;
  placed.tensor = read.reader.tensor();
  return placed;
}

void Capturing::copy() {
  std::vector<snapshot::Placed> placed;
  std::vector<snapshot::SafeTensor> described;
  std::uint64_t bytes = 0;
  bool on_gpu = false;
  capture_.in_blob.assign(parameters_.size(), false);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!reads_[i].whole) continue;
    const std::optional<snapshot::Placed> place = this->place(reads_[i]);
    if (!place) continue;
    capture_.in_blob[i] = true;
    on_gpu = on_gpu || place->device >= 0;
    placed.push_back(*place);
    described.push_back(safe_tensor(parameters_[i].name, reads_[i].reader));
    bytes += described.back().bytes();
  }
  if (placed.empty()) return;
  const nb::gil_scoped_release release;
  const auto reserve = [](std::uint64_t wanted) {
    return session::Engine::instance().reserve_blob(wanted);
  };
  if (on_gpu) {
    blob_ = snapshot::CudaCopy::take(reserve, std::move(described), placed);
  } else if (snapshot::BlobRoom room = reserve(bytes)) {
    std::vector<snapshot::Tensor> tensors;
    tensors.reserve(placed.size());
    for (const snapshot::Placed& each : placed) tensors.push_back(each.tensor);
    blob_ = snapshot::BlobCopy::take(std::move(room), std::move(described), tensors);
  }
}

Captured Capturing::finish() {
  Captured out;
  for (Parameter& parameter : parameters_) out.names.push_back(std::move(parameter.name));
  out.capture = std::move(capture_);
  out.blob = std::move(blob_);
  out.capture.ts_ns = base::to_wall_ns(record::Journal::instance().anchor(), base::monotonic_ns());
  out.capture.catalogue = std::move(catalogue_);
  out.capture.statistics = std::move(statistics_);
  return out;
}

}  // namespace sonde::native
