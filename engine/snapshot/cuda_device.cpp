#include "engine/snapshot/cuda_device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "engine/base/thread.h"
#include "engine/snapshot/cuda_compiler.h"

namespace sonde::snapshot {

using base::CudaCalls;
using base::CudaDriver;
using base::kCuSuccess;

namespace {

constexpr int kMaxDevices = 64;
constexpr unsigned kEventWithoutTime = 2, kStreamNonBlocking = 1, kHostPortable = 1;
constexpr int kComputeMajor = 75, kComputeMinor = 76;
constexpr std::size_t kKeptWorkspaces = 4;

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
  auto made = std::make_unique<CudaDevice>(*driver, context, device);
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
  fine = fine && driver_.stream_create(&stream_, kStreamNonBlocking, 0) == kCuSuccess;
  return fine ? base::Status() : base::Status(EINVAL, "the driver does not load the kernels");
}

std::unique_ptr<Workspace> CudaDevice::take(std::size_t device_bytes,
                                            std::size_t host_bytes) noexcept {
  std::unique_ptr<Workspace> space;
  {
    const std::lock_guard lock(lock_);
    const auto free = std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) {
      return !idle->launched || driver_.event_query(idle->done) == kCuSuccess;
    });
    if (free != idle_.end()) {
      space = std::move(*free);
      idle_.erase(free);
    }
  }
  if (!space) {
    space.reset(new (std::nothrow) Workspace);
    if (!space || driver_.event_create(&space->begun, kEventWithoutTime) != kCuSuccess ||
        driver_.event_create(&space->done, kEventWithoutTime) != kCuSuccess)
      return nullptr;
  }
  space->launched = false;
  if (space->device_bytes < device_bytes) {
    if (space->device != 0) driver_.mem_free(space->device);
    space->device = 0;
    space->device_bytes = 0;
    if (driver_.mem_alloc(&space->device, device_bytes) != kCuSuccess) {
      give(std::move(space));
      return nullptr;
    }
    space->device_bytes = device_bytes;
  }
  if (space->host_bytes < host_bytes) {
    if (space->host != nullptr) driver_.host_free(space->host);
    space->host = nullptr;
    space->host_bytes = 0;
    void* memory = nullptr;
    if (driver_.host_alloc(&memory, host_bytes, kHostPortable) != kCuSuccess) {
      give(std::move(space));
      return nullptr;
    }
    space->host = static_cast<std::byte*>(memory);
    space->host_bytes = host_bytes;
  }
  return space;
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
