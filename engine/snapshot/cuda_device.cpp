#include "engine/snapshot/cuda_device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "engine/base/cuda_driver.h"
#include "engine/base/thread.h"
#include "engine/snapshot/cuda_compiler.h"
#include "engine/snapshot/cuda_state.h"

namespace sonde::snapshot {

using base::CudaCalls;
using base::CudaDriver;
using base::kCuSuccess;

namespace {

constexpr int kMaxDevices = 64;
constexpr unsigned kEventWithoutTime = 2, kStreamNonBlocking = 1, kHostPortable = 1;
constexpr int kComputeMajor = 75, kComputeMinor = 76;

std::array<std::atomic<CudaDevice*>, kMaxDevices> g_devices{};

void forget_in_child() {
  for (auto& device : g_devices) device.store(nullptr);  // leaked: they are the parent's
}

}  // namespace

CudaDevice* CudaDevice::of(int ordinal) noexcept {
  if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
  std::atomic<CudaDevice*>& slot = g_devices[static_cast<std::size_t>(ordinal)];
  if (CudaDevice* found = slot.load(std::memory_order_acquire)) return found;
  const CudaDriver* driver = CudaDriver::instance();
  base::CuDevice device = 0;
  base::CuContext context = nullptr;
  // The context that frameworks use; kept, as they keep it.
  if (driver == nullptr || driver->device_get(&device, ordinal) != kCuSuccess ||
      driver->primary_retain(&context, device) != kCuSuccess)
    return nullptr;
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, forget_in_child);
  static_cast<void>(kRegistered);
  base::CuStream stream = nullptr;
  {
    const CudaCalls calls(*driver, context);
    if (driver->stream_create(&stream, kStreamNonBlocking, 0) != kCuSuccess) return nullptr;
  }
  auto made = std::make_unique<CudaDevice>(*driver, context, device, stream);
  CudaDevice* none = nullptr;
  if (slot.compare_exchange_strong(none, made.get())) return made.release();
  return none;
}

CudaState CudaDevice::prepare(bool wait) noexcept {
  std::unique_lock lock(lock_);
  if (!begun_) {
    begun_ = true;
    // `this` stays for the life of the process.
    if (!base::start_detached_thread("sonde-nvrtc", [this] { compile(); }).ok()) {
      state_ = CudaState::kUnavailable;
      problem_ = "no thread to compile the kernels on";
    }
  }
  if (wait) prepared_.wait(lock, [this] { return state_ != CudaState::kPreparing; });
  return state_;
}

std::string CudaDevice::problem() const {
  const std::lock_guard lock(lock_);
  return problem_;
}

void CudaDevice::compile() noexcept {
  std::string problem;
  try {
    int major = 0, minor = 0;
    driver_.device_attribute(&major, kComputeMajor, device_);
    driver_.device_attribute(&minor, kComputeMinor, device_);
    std::string image;
    base::Status status = compile_kernels(major, minor, image);
    if (status.ok()) status = load(image);
    if (!status.ok()) problem = status.text();
  } catch (...) {
    problem = "no memory to compile the kernels";
  }
  const std::lock_guard lock(lock_);
  problem_ = problem;
  state_ = problem.empty() ? CudaState::kReady : CudaState::kUnavailable;
  prepared_.notify_all();
}

base::Status CudaDevice::load(const std::string& image) {
  const CudaCalls calls(driver_, context_);
  base::CuModule module = nullptr;
  bool fine = driver_.module_load(&module, image.c_str()) == kCuSuccess;
  const auto find = [&](base::CuFunction& function, const char* name) {
    fine = fine && driver_.module_function(&function, module, name) == kCuSuccess;
  };
  find(kernels_.measure_moments, "measure_moments");
  find(kernels_.combine_moments, "combine_moments");
  find(kernels_.measure_histogram, "measure_histogram");
  return fine ? base::Status() : base::Status(EINVAL, "the driver does not load the kernels");
}

std::unique_ptr<Workspace> CudaDevice::take(std::size_t device_bytes,
                                            std::size_t host_bytes) noexcept {
  {
    const std::lock_guard lock(lock_);
    const auto free = std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) {
      return idle->device_bytes >= device_bytes && idle->host_bytes >= host_bytes &&
             (!idle->launched || driver_.event_query(idle->done) == kCuSuccess);
    });
    if (free != idle_.end()) {
      std::unique_ptr<Workspace> space = std::move(*free);
      idle_.erase(free);
      space->launched = false;
      return space;
    }
  }
  // None that is free is large enough. The small ones are kept for other passes, because freeing
  // their memory would wait for the device. The new one is made larger than needed, so that there
  // are few of them.
  std::unique_ptr<Workspace> space(new (std::nothrow) Workspace);
  if (!space || driver_.event_create(&space->begun, kEventWithoutTime) != kCuSuccess ||
      driver_.event_create(&space->done, kEventWithoutTime) != kCuSuccess)
    return nullptr;
  device_bytes += device_bytes / 2;
  host_bytes += host_bytes / 2;
  void* memory = nullptr;
  if (device_bytes != 0 && driver_.mem_alloc(&space->device, device_bytes) != kCuSuccess)
    return nullptr;
  space->device_bytes = device_bytes;
  const bool fine =
      host_bytes == 0 || driver_.host_alloc(&memory, host_bytes, kHostPortable) == kCuSuccess;
  space->host = static_cast<std::byte*>(memory);
  space->host_bytes = fine ? host_bytes : 0;
  if (fine) return space;
  give(std::move(space));
  return nullptr;
}

void CudaDevice::give(std::unique_ptr<Workspace> workspace) noexcept {
  try {
    const std::lock_guard lock(lock_);
    idle_.push_back(std::move(workspace));
  } catch (...) {
    // The vector is short of memory: this one is not used again.
  }
}

}  // namespace sonde::snapshot
