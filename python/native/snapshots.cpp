// The functions by which python/sonde/snapshots takes captures and submits them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/record/journal.h"
#include "engine/session/engine.h"
#include "engine/snapshot/join.h"
#include "python/native/attrs.h"
#include "python/native/capturing.h"
#include "python/native/module.h"
#include "python/native/parameters.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

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

// Names and id() of the parameters that capture() would take.
nb::list parameter_ids(nb::handle source) {
  std::vector<Parameter> all;
  if (!list_parameters("", source.ptr(), all)) throw nb::python_error();
  nb::list found;
  for (const Parameter& each : all) {
    nb::object name = nb::steal(str_of(each.name, "surrogatepass"));
    found.append(nb::make_tuple(name, reinterpret_cast<std::uintptr_t>(each.tensor.get())));
  }
  return found;
}

// The names of the tensors whose values are all zero, by their statistics.
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

// submit(captured, sequence, epoch, step, mode, more): captures of weights, or of gradients, each
// with its attributes.
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
  // A part that could not be copied is left out of the file. If all parts failed, the session
  // counts the loss.
  if (std::ranges::any_of(blobs, [](const auto& blob) { return blob != nullptr; })) {
    for (std::size_t i = 0; i < captures.size(); ++i)
      if (blobs[i] == nullptr) captures[i].in_blob.clear();
  }
  snapshot::Capture capture = snapshot::join(std::move(captures));
  capture.span_id = base::make_id(record::Journal::instance().key(), sequence);
  capture.epoch = epoch;
  capture.step = step;
  capture.mode = mode;
  const nb::gil_scoped_release release;
  session::Engine::instance().add_capture(std::move(capture), snapshot::join(std::move(blobs)),
                                          more);
}

}  // namespace

void add_snapshots(nb::module_& snapshots) {
  nb::class_<Captured>(snapshots, "Captured", "Statistics of tensors that wait for their epoch.")
      .def("__len__", [](const Captured& self) { return self.names.size(); })
      .def_ro("names", &Captured::names,
              "Names of the parameters; for gradients the same, without .grad.")
      .def("zeros", &zeros,
           "The names of tensors whose values are all zero, as far as is known yet.");
  snapshots.def("parameter_ids", &parameter_ids, nb::arg("source"),
                "Name and id() of each parameter of a module or of pairs.");
  snapshots.def("capture", &capture, nb::arg("models"), nb::arg("gradients"),
                nb::arg("parameters").none(), nb::arg("skip"), nb::arg("whole"), nb::arg("threads"),
                nb::arg("resolve"), nb::arg("fallback"),
                "Statistics of the parameters of models, or of the gradients of some of them.");
  snapshots.def(
      "submit", &submit, nb::arg("captured"), nb::arg("sequence"), nb::arg("epoch").none(),
      nb::arg("step").none(), nb::arg("mode"), nb::arg("more"),
      "Hands captures of one kind, each with its attributes, to the session as part of an "
      "epoch.");
}

}  // namespace sonde::native
