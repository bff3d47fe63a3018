// One GPU as the snapshots use it: its context, the compiled kernels, a stream, and memory that is
// taken for a pass and given back after it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/cuda_driver.h"
#include "engine/base/status.h"
#include "engine/snapshot/cuda_state.h"

namespace sonde::snapshot {

// Memory of one pass, on the device and, pinned, on the host. Kept for the next one.
struct Workspace {
  base::CuPointer device = 0;
  std::size_t device_bytes = 0;
  std::byte* host = nullptr;
  std::size_t host_bytes = 0;
  base::CuEvent begun = nullptr, done = nullptr;
  bool launched = false;  // `done` has been recorded
};

class CudaDevice {
 public:
  // Null: the process has no CUDA, or no such device. Stays for the life of the process; a forked
  // child starts without.
  static CudaDevice* of(int ordinal) noexcept;

  CudaDevice(const base::CudaDriver& driver, base::CuContext context, base::CuDevice device,
             base::CuStream stream)
      : driver_(driver), context_(context), device_(device), stream_(stream) {}

  const base::CudaDriver& driver() const noexcept { return driver_; }
  base::CuContext context() const noexcept { return context_; }

  CudaState prepare(bool wait) noexcept;
  std::string problem() const;

  struct Kernels {
    base::CuFunction measure_moments, combine_moments, measure_histogram;
  };
  const Kernels& kernels() const noexcept { return kernels_; }  // once prepared
  base::CuStream stream() const noexcept { return stream_; }
  // Bytes of the device that copies for blobs take at this moment.
  std::atomic<std::uint64_t>& staged() noexcept { return staged_; }

  // To be called inside CudaCalls. Null: there is no memory.
  std::unique_ptr<Workspace> take(std::size_t device_bytes, std::size_t host_bytes) noexcept;
  void give(std::unique_ptr<Workspace> workspace) noexcept;

 private:
  void compile() noexcept;
  base::Status load(const std::string& image);

  const base::CudaDriver& driver_;
  const base::CuContext context_;
  const base::CuDevice device_;
  mutable std::mutex lock_;
  std::condition_variable prepared_;
  bool begun_ = false;
  CudaState state_ = CudaState::kPreparing;
  std::string problem_;
  Kernels kernels_{};
  const base::CuStream stream_;
  std::atomic<std::uint64_t> staged_{0};
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace sonde::snapshot
