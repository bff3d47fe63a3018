// GPU time between two points of the program, from CUDA events on the current stream. The events
// are pooled. Recording one never waits for the device, and no thread synchronises with it: the
// drain thread asks whether both events have passed.
//
// CUDA is found in the process that uses it (libcuda, by dlopen); nothing is linked.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/placement.h"

namespace sonde::probe {

// The stream that work of the calling thread goes to on this device; false when that is not known.
using CurrentStream = bool (*)(int device, void** stream) noexcept;

// From now on gpu_mark records events. False: this process has no CUDA driver. `current_stream` is
// asked on the threads that call gpu_mark.
bool gpu_start(CurrentStream current_stream) noexcept;
void gpu_stop() noexcept;

namespace detail {
extern std::atomic<bool> g_gpu_on;
SONDE_APART std::uint32_t mark() noexcept;
SONDE_APART void add_ref(std::uint32_t event) noexcept;
SONDE_APART void drop_ref(std::uint32_t event) noexcept;
}  // namespace detail

inline bool gpu_running() noexcept { return detail::g_gpu_on.load(std::memory_order_relaxed); }

// An event, recorded on the current stream. 0: there is none (no CUDA context yet, the
// stream is being captured into a graph, too many are under way).
inline std::uint32_t gpu_mark() noexcept { return gpu_running() ? detail::mark() : 0; }

// One event may end one span and begin another: each holds a share.
inline std::uint32_t gpu_share(std::uint32_t event) noexcept {
  if (event != 0) detail::add_ref(event);
  return event;
}
inline void gpu_release(std::uint32_t event) noexcept {
  if (event != 0) detail::drop_ref(event);
}

// Attaches the allocator's peak to the span that this event ends.
void gpu_attach_peak(std::uint32_t event, std::int64_t bytes) noexcept;
std::int64_t gpu_peak(std::uint32_t event) noexcept;  // -1: none

enum class GpuTime : std::uint8_t {
  kKnown,
  kPending,  // the device is not there yet
  kUnknown,  // one of them is missing, or they lie on different streams
};
// For the drain thread; it keeps graph captures of other threads valid.
GpuTime gpu_elapsed(std::uint32_t start, std::uint32_t end, std::int64_t& ns) noexcept;

// Events that exist, for tests of the pool.
std::uint32_t gpu_events_made() noexcept;

}  // namespace sonde::probe
