// Statistics of tensors on NVIDIA GPUs: one fused pass over all of them, on a separate stream
// that follows the training's. Nothing waits on the host: the drain thread asks whether it is done.
// The memory used is the driver's, not the framework's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/cuda_driver.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/cuda_state.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

// Starts compiling the kernels for this device on another thread, unless they are compiled already.
CudaState prepare_cuda(int device) noexcept;
// As prepare_cuda, and waits until it is done.
CudaState await_cuda(int device) noexcept;
// Why it is unavailable.
std::string cuda_problem(int device);

// May this stream be given something to do? Not while it is being captured into a graph.
bool cuda_stream_usable(int device, void* stream) noexcept;

// False for a tensor with too many dimensions that cannot be merged; the caller measures it another
// way.
bool cuda_can_measure(const Tensor& tensor) noexcept;

class CudaStatistics final : public Pending {
 public:
  CudaStatistics();
  ~CudaStatistics() override;

  // Measures tensors of one device; their `data` are addresses on that device. The work is ordered
  // after everything that is in `stream` now and before everything that comes later, so the tensors
  // may be changed or freed after this call. tensors[i] belongs to record records[i] of the
  // capture. All must be measurable (cuda_can_measure). False: nothing was started.
  bool begin(int device, void* stream, std::span<const Tensor> tensors,
             std::vector<std::size_t> records) noexcept;

  bool ready() noexcept override;
  void complete(Capture& capture, bool give_up) noexcept override;

 private:
  struct Run;
  std::vector<std::unique_ptr<Run>> runs_;
};

}  // namespace sonde::snapshot
