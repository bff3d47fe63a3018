#include "python/native/gpu_watch.h"

#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/placement.h"
#include "engine/hook/training.h"
#include "engine/probe/gpu_clock.h"
#include "python/native/cuda.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

std::uint64_t g_next_peak_ns = 0;  // the allocator is not asked before

// Attaches the allocator's peak to a step. Asking torch takes tens of microseconds, so it is asked
// only so often that this takes a thousandth of the time at most; other steps have no peak.
void note_memory_peak(std::uint32_t event) noexcept {
  const std::uint64_t start = base::monotonic_ns();
  if (start < g_next_peak_ns || !counts_cuda_memory()) return;
  // Called while scopes are being closed: no finalizer may run now.
  const bool collecting = PyGC_Disable() != 0;
  const std::int64_t bytes = cuda_memory_peak();
  if (bytes >= 0) probe::gpu_attach_peak(event, bytes);
  if (collecting) PyGC_Enable();
  const std::uint64_t end = base::monotonic_ns();
  g_next_peak_ns = end + 1000 * (end - start);
}

SONDE_COLD void start_gpu() noexcept {
  if (!probe::gpu_start(current_cuda_stream)) return ignore_cuda();
  const int device = current_cuda_device();
  if (device >= 0) gpu_appeared(device);
}

}  // namespace

SONDE_HOT void look_for_gpu() noexcept {
  if (!torch_has_cuda() || probe::gpu_running()) [[likely]]
    return;
  if (cuda_initialized()) start_gpu();
}

void begin_gpu_watch() noexcept {
  g_next_peak_ns = 0;
  hook::Training::on_step_end(counts_cuda_memory() ? note_memory_peak : nullptr);
  if (!torch_has_cuda()) probe::gpu_stop();
}

void end_gpu_watch() noexcept {
  hook::Training::on_step_end(nullptr);
  probe::gpu_stop();
}

}  // namespace sonde::native
