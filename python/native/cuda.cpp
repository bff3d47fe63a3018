#include "python/native/cuda.h"

#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/snapshot/cuda.h"
#include "engine/snapshot/cuda_compiler.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

bool g_wanted = false;  // guarded by the GIL

}  // namespace

bool begin_cuda(int device, std::span<const snapshot::Tensor> tensors,
                std::vector<std::size_t> records, snapshot::Capture& capture) {
  void* stream = nullptr;
  if (!current_cuda_stream(device, &stream)) return false;
  const nb::gil_scoped_release release;  // the kernels may still be compiling
  if (!snapshot::cuda_stream_usable(device, stream)) return false;
  // One object for all devices of the capture.
  auto* pending = dynamic_cast<snapshot::CudaStatistics*>(capture.pending.get());
  std::unique_ptr<snapshot::CudaStatistics> fresh;
  if (pending == nullptr) {
    fresh = std::make_unique<snapshot::CudaStatistics>();
    pending = fresh.get();
  }
  if (!pending->begin(device, stream, tensors, std::move(records))) return false;
  if (fresh) capture.pending = std::move(fresh);
  return true;
}

void gpu_appeared(int device) noexcept {
  if (g_wanted) snapshot::prepare_cuda(device);
}

void add_cuda(nb::module_& device) {
  device.def(
      "want_kernels",
      [](std::optional<std::vector<std::string>> nvrtc) {
        g_wanted = nvrtc.has_value();
        if (nvrtc) snapshot::set_nvrtc_paths(std::move(*nvrtc));
      },
      nb::arg("nvrtc").none(),
      "Compile the kernels once the program uses a GPU, with NVRTC from one of these paths, the "
      "likeliest first. None: do not.");
}

}  // namespace sonde::native
