// A model's tensors, from the objects that hold them to a capture: listed and read with the GIL,
// measured without it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/record/journal.h"
#include "engine/session/engine.h"
#include "engine/snapshot/blob_copy.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/cuda.h"
#include "engine/snapshot/cuda_copy.h"
#include "engine/snapshot/join.h"
#include "engine/snapshot/statistics.h"
#include "python/native/attrs.h"
#include "python/native/blobs.h"
#include "python/native/boundaries.h"
#include "python/native/cuda.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/parameters.h"
#include "python/native/tensors.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

// A capture that has still to be told which epoch it belongs to.
struct Captured {
  snapshot::Capture capture;
  std::unique_ptr<snapshot::BlobSource> blob;
  std::vector<std::string> names;  // of the parameters
};

struct Read {
  TensorReader reader;
  Ref value;          // what is read; the tensor itself, or what was made of it
  bool whole = true;  // what is read is all of the tensor, as it is
};

using Catalogue = snapshot::Catalogue;

constexpr int kCuda = 2;  // of DLPack
// What a GPU measures in a nanosecond, at the least: two passes over memory.
constexpr std::uint64_t kCudaBytesPerNs = 200;

class Capturing {
 public:
  Capturing(std::vector<Parameter> parameters, bool gradients)
      : parameters_(std::move(parameters)),
        reads_(std::make_unique<Read[]>(parameters_.size())),
        catalogue_(std::make_shared<Catalogue>(parameters_.size())),
        statistics_(parameters_.size()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      (*catalogue_)[i].name = parameters_[i].name + (gradients ? ".grad" : "");
    }
    capture_.kind = gradients ? snapshot::Kind::kGradients : snapshot::Kind::kWeights;
  }

  // `resolve` is asked about tensors that are not plain memory: (tensor, is it a part of one?).
  void read(nb::handle resolve);
  void measure(unsigned threads);
  // `fallback` measures what lies on other devices.
  void measure_elsewhere(nb::handle fallback);
  // A copy of what can be had of the tensors, for a file.
  void copy();
  Captured finish();

 private:
  std::optional<snapshot::Placed> place(Read& read);
  std::vector<std::size_t> measure_on_cuda(const std::vector<std::size_t>& here);
  void read_value(std::size_t i, PyObject* value, bool again);
  void take_resolved(std::size_t i, nb::handle resolved);
  void describe(std::size_t i);

  std::vector<Parameter> parameters_;
  std::unique_ptr<Read[]> reads_;
  std::shared_ptr<Catalogue> catalogue_;
  std::vector<std::optional<snapshot::Statistics>> statistics_;
  std::vector<std::size_t> unresolved_, elsewhere_;
  snapshot::Capture capture_;
  std::unique_ptr<snapshot::BlobSource> blob_;
};

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
      if (again || is_tensor(value)) {
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
  entry.attrs += std::string("\"unavailable\":\"") + readable_text(reader.readable()) + '"';
}

void Capturing::read(nb::handle resolve) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    PyObject* tensor = parameters_[i].tensor.get();
    if (parameters_[i].sharded || is_subclass_of_tensor(tensor)) {
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

snapshot::Statistics from_numbers(nb::handle numbers) {
  const auto parts = nb::cast<nb::tuple>(numbers);
  snapshot::Statistics out;
  out.mean = nb::cast<double>(parts[0]);
  out.std = nb::cast<double>(parts[1]);
  out.min = nb::cast<double>(parts[2]);
  out.max = nb::cast<double>(parts[3]);
  out.norm = nb::cast<double>(parts[4]);
  out.count = nb::cast<std::uint64_t>(parts[5]);
  out.nan_count = nb::cast<std::uint64_t>(parts[6]);
  out.inf_count = nb::cast<std::uint64_t>(parts[7]);
  out.zero_count = nb::cast<std::uint64_t>(parts[8]);
  const auto counts = nb::cast<std::vector<std::uint64_t>>(parts[9]);
  if (counts.size() != out.counts.size()) throw nb::value_error("sixteen counts are needed");
  std::copy(counts.begin(), counts.end(), out.counts.begin());
  return out;
}

// By our own pass on the GPU, which will fill in the statistics. Returns those that it leaves out.
std::vector<std::size_t> Capturing::measure_on_cuda(const std::vector<std::size_t>& here) {
  const TensorReader& first = reads_[here.front()].reader;
  if (first.device_type() != kCuda) return here;
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
  note_device_time(bytes / kCudaBytesPerNs);
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

// What is on a GPU of ours stays there for now; what is elsewhere comes to memory. Null: it cannot
// be read.
std::optional<snapshot::Placed> Capturing::place(Read& read) {
  snapshot::Placed placed;
  if (read.reader.readable() == Readable::kElsewhere) {
    const bool cuda = read.reader.device_type() == kCuda &&
                      current_cuda_stream(read.reader.device_index(), &placed.stream);
    // In the order in which the file has it.
    Ref plain(PyObject_CallMethod(read.value.get(), cuda ? "contiguous" : "cpu", nullptr));
    if (!plain) return PyErr_Clear(), std::nullopt;  // no memory: the statistics are not concerned
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
    for (const snapshot::Placed& each : placed) tensors.push_back(each.tensor);
    blob_ = snapshot::BlobCopy::take(std::move(room), std::move(described), tensors);
  }
}

Captured Capturing::finish() {
  const record::Header& head = record::Journal::instance().header();
  Captured out;
  for (Parameter& parameter : parameters_) out.names.push_back(std::move(parameter.name));
  out.capture = std::move(capture_);
  out.blob = std::move(blob_);
  out.capture.ts_ns = base::to_wall_ns(head.anchor, base::monotonic_ns());
  out.capture.catalogue = std::move(catalogue_);
  out.capture.statistics = std::move(statistics_);
  return out;
}

Captured capture(nb::list models, bool gradients, nb::object parameters, nb::set skip, bool whole,
                 unsigned threads, nb::object resolve, nb::object fallback) {
  std::unordered_set<const PyObject*> only;
  if (!parameters.is_none()) {
    for (nb::handle each : nb::cast<nb::list>(parameters)) only.insert(each.ptr());
  }
  std::vector<Parameter> all;
  for (nb::handle model : models) {
    const auto pair = nb::cast<nb::tuple>(model);
    if (!list_parameters(nb::cast<std::string>(pair[0]), pair[1].ptr(), all))
      throw nb::python_error();
  }
  if (gradients) {
    keep_gradients(all, parameters.is_none() ? nullptr : &only, skip.ptr());
  }
  Capturing capturing(std::move(all), gradients);
  capturing.read(resolve);
  capturing.measure(threads);
  capturing.measure_elsewhere(fallback);
  if (whole) capturing.copy();
  return capturing.finish();
}

// Names and id() of what capture() would take.
nb::list parameter_ids(nb::handle source) {
  std::vector<Parameter> all;
  if (!list_parameters("", source.ptr(), all)) throw nb::python_error();
  nb::list found;
  for (const Parameter& each : all) {
    nb::object name = nb::steal(PyUnicode_DecodeUTF8(
        each.name.data(), static_cast<Py_ssize_t>(each.name.size()), "surrogatepass"));
    found.append(nb::make_tuple(name, reinterpret_cast<std::uintptr_t>(each.tensor.get())));
  }
  return found;
}

// Whose statistics say that all their values are zero.
std::vector<std::string> zeros(const Captured& self) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < self.names.size(); ++i) {
    const std::optional<snapshot::Statistics>& stats = self.capture.statistics[i];
    if (stats && stats->count != 0 && stats->zero_count == stats->count && stats->nan_count == 0 &&
        stats->inf_count == 0)
      found.push_back(self.names[i]);
  }
  return found;
}

// submit(captured, sequence, epoch, step, mode, more): of one kind, each with its attributes.
void submit(nb::list captured, std::uint64_t sequence, std::optional<std::int64_t> epoch,
            std::optional<std::int64_t> step, const std::string& mode, bool more) {
  std::vector<snapshot::Capture> captures;
  std::vector<std::unique_ptr<snapshot::BlobSource>> blobs;
  for (nb::handle pair : captured) {
    const auto parts = nb::cast<nb::tuple>(pair);
    auto& one = nb::cast<Captured&>(parts[0]);
    if (one.capture.size() == 0) continue;
    base::JsonWriter members;
    encode_members(members, parts[1].ptr());
    one.capture.attrs = members.str();
    captures.push_back(std::move(one.capture));
    blobs.push_back(std::move(one.blob));
  }
  if (captures.empty()) return;
  // A part whose copy failed is not in the file of the others. Where all failed, the session counts
  // the loss.
  if (std::ranges::any_of(blobs, [](const auto& blob) { return blob != nullptr; })) {
    for (std::size_t i = 0; i < captures.size(); ++i)
      if (blobs[i] == nullptr) captures[i].in_blob.clear();
  }
  snapshot::Capture capture = snapshot::join(std::move(captures));
  capture.span_id = base::make_id(record::Journal::instance().header().key, sequence);
  capture.epoch = epoch.value_or(-1);
  capture.step = step.value_or(-1);
  capture.mode = mode;
  const nb::gil_scoped_release release;
  session::Engine::instance().add_capture(std::move(capture), snapshot::join(std::move(blobs)),
                                          more);
}

}  // namespace

void add_snapshots(nb::module_& module) {
  nb::class_<Captured>(module, "Captured", "Statistics of tensors that wait for their epoch.")
      .def("__len__", [](const Captured& self) { return self.names.size(); })
      .def_ro("names", &Captured::names, "Of the parameters, those of gradients without .grad.")
      .def("zeros", &zeros, "The names of those that are all zero, as far as is known by now.");
  module.def("parameter_ids", &parameter_ids, nb::arg("source"),
             "Name and id() of each parameter of a module or of pairs.");
  module.def("capture", &capture, nb::arg("models"), nb::arg("gradients"),
             nb::arg("parameters").none(), nb::arg("skip"), nb::arg("whole"), nb::arg("threads"),
             nb::arg("resolve"), nb::arg("fallback"),
             "Statistics of the parameters of models, or of the gradients of some of them.");
  module.def("submit", &submit, nb::arg("captured"), nb::arg("sequence"), nb::arg("epoch").none(),
             nb::arg("step").none(), nb::arg("mode"), nb::arg("more"),
             "Hand captures of one kind, each with its attributes, to the session as part of this "
             "epoch.");
}

}  // namespace sonde::native
