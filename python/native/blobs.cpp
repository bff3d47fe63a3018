#include "python/native/blobs.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "engine/base/clock.h"
#include "engine/session/engine.h"
#include "engine/snapshot/blob_copy.h"
#include "python/native/module.h"

namespace nb = nanobind;

namespace sonde::native {

snapshot::SafeTensor safe_tensor(std::string name, const TensorReader& reader) {
  const snapshot::Tensor tensor = reader.tensor();
  const auto shape = reader.shape();
  snapshot::SafeTensor safe{
      std::move(name), snapshot::safe_type(tensor.element), {shape.begin(), shape.end()}};
  if (tensor.rank == shape.size()) return safe;
  // A complex one.
  if (tensor.element == snapshot::Element::kFloat32) {
    safe.type = snapshot::kComplexFloat32;
  } else {
    safe.shape.push_back(2);
  }
  return safe;
}

namespace {

std::string write_blob(const std::vector<std::string>& names, const nb::sequence& tensors,
                       const std::string& kind) {
  std::vector<TensorReader> readers(names.size());
  std::vector<snapshot::Tensor> readable;
  std::vector<snapshot::SafeTensor> described;
  snapshot::Catalogue catalogue(names.size());
  snapshot::Capture capture;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const nb::object object = tensors[i];
    const bool taken = readers[i].read(object.ptr()) == Readable::kYes;
    const auto shape = readers[i].shape();
    catalogue[i] = {names[i], readers[i].dtype(), {shape.begin(), shape.end()}, ""};
    capture.in_blob.push_back(taken);
    if (!taken) continue;
    readable.push_back(readers[i].tensor());
    described.push_back(safe_tensor(names[i], readers[i]));
    bytes += described.back().bytes();
  }
  capture.span_id = base::random_id();
  capture.kind = kind == "gradients" ? snapshot::Kind::kGradients : snapshot::Kind::kWeights;
  capture.ts_ns = base::wall_clock_ns();
  capture.catalogue = std::make_shared<const snapshot::Catalogue>(std::move(catalogue));
  capture.mode = "full";
  std::string span(32, ' ');
  base::write_hex(capture.span_id, span.data());
  const nb::gil_scoped_release release;
  session::Engine& engine = session::Engine::instance();
  std::unique_ptr<snapshot::BlobSource> copy;
  if (snapshot::BlobRoom room = engine.reserve_blob(bytes)) {
    copy = snapshot::BlobCopy::take(std::move(room), std::move(described), readable);
  }
  engine.add_capture(std::move(capture), std::move(copy));
  return span;
}

}  // namespace

void add_blobs(nb::module_& module) {
  module.def("write_blob", &write_blob, nb::arg("names"), nb::arg("tensors"), nb::arg("kind"),
             "Write tensors as a blob of their own, without statistics: for tests and benches.");
}

}  // namespace sonde::native
