// sonde._testing: functions that only tests and benches call. The extension is not part of the
// wheel. It has its own copy of the code, and sees nothing of what _core records or has compiled.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/snapshot/cuda.h"
#include "engine/snapshot/cuda_compiler.h"
#include "engine/snapshot/measure.h"
#include "engine/snapshot/statistics.h"
#include "python/native/attrs.h"
#include "python/native/tensors.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

nb::dict describe(const snapshot::Statistics& found) {
  nb::dict out;
  out["mean"] = found.mean;
  out["std"] = found.std;
  out["min"] = found.min;
  out["max"] = found.max;
  out["norm"] = found.norm;
  out["count"] = found.count;
  out["nan_count"] = found.nan_count;
  out["inf_count"] = found.inf_count;
  out["zero_count"] = found.zero_count;
  out["minus_inf_count"] = found.minus_inf_count;
  nb::list counts, edges;
  for (const std::uint64_t count : found.counts) counts.append(count);
  for (int i = 0; i <= snapshot::Statistics::kBins; ++i) edges.append(found.edge(i));
  out["counts"] = counts;
  out["edges"] = edges;
  return out;
}

nb::list measure_tensors(const nb::sequence& tensors, unsigned threads, bool describe_them) {
  const std::size_t count = nb::len(tensors);
  std::vector<TensorReader> readers(count);
  std::vector<snapshot::Tensor> readable;
  for (std::size_t i = 0; i < count; ++i) {
    const nb::object object = tensors[i];
    if (readers[i].read(object.ptr()) == Readable::kYes) readable.push_back(readers[i].tensor());
  }
  std::vector<snapshot::Statistics> found(readable.size());
  {
    const nb::gil_scoped_release release;
    snapshot::measure(readable, found, threads);
  }
  nb::list out;
  if (!describe_them) return out;
  std::size_t next = 0;
  for (const TensorReader& reader : readers) {
    if (reader.readable() == Readable::kYes)
      out.append(describe(found[next++]));
    else
      out.append(nb::none());
  }
  return out;
}

nb::dict read_tensor(const nb::object& tensor) {
  TensorReader reader;
  const Readable readable = reader.read(tensor.ptr());
  nb::list shape;
  for (const std::int64_t size : reader.shape()) shape.append(size);
  nb::dict out;
  out["readable"] = readable_text(readable);
  out["dtype"] = nb::str(reader.dtype().c_str());
  out["shape"] = shape;
  out["device"] = nb::make_tuple(reader.device_type(), reader.device_index());
  return out;
}

nb::bytes compile_kernels(std::vector<std::string> nvrtc, int major, int minor) {
  std::string image;
  base::Status status;
  {
    const nb::gil_scoped_release release;
    snapshot::set_nvrtc_paths(std::move(nvrtc));
    status = snapshot::compile_kernels(major, minor, image);
  }
  if (!status.ok()) throw nb::value_error(status.text().c_str());
  return nb::bytes(image.data(), image.size());
}

std::string await_kernels(int device) {
  const nb::gil_scoped_release release;
  return snapshot::await_cuda(device) == snapshot::CudaState::kReady
             ? std::string()
             : snapshot::cuda_problem(device);
}

std::string encode_json(nb::handle value) { return encode_value(value.ptr()); }

}  // namespace

}  // namespace sonde::native

NB_MODULE(_testing, module) {
  using namespace sonde::native;
  module.doc() = "What only tests and benches call. Not part of the wheel.";
  module.def("measure_tensors", &measure_tensors, nb::arg("tensors"), nb::arg("threads") = 1,
             nb::arg("describe") = true,
             "Statistics of each tensor; None where its memory cannot be had. Without `describe` "
             "they are taken, and nothing is said: dicts cost more than small tensors do.");
  module.def("read_tensor", &read_tensor, nb::arg("tensor").none(),
             "Whether and how a tensor's memory can be read, its dtype, shape and device.");
  module.def("compile_kernels", &compile_kernels, nb::arg("nvrtc"), nb::arg("major"),
             nb::arg("minor"),
             "The kernels of the statistics, compiled for a compute capability with NVRTC from one "
             "of these paths.");
  module.def("await_kernels", &await_kernels, nb::arg("device"),
             "Compiles the kernels for this GPU and waits for them; returns what is wrong, or ''.");
  module.def("encode_json", &encode_json, nb::arg("value").none(),
             "A value of an attribute as the spool writes it; its repr where JSON has no form for "
             "it.");
}
