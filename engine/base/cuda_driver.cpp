#include "engine/base/cuda_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <type_traits>

namespace sonde::base {

namespace {

bool load(CudaDriver& driver) {
  // Finds only a driver that the program has loaded itself: the profiler must not load it.
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    complete = complete && function != nullptr;
  };
  find(driver.ctx_get_current, "cuCtxGetCurrent");
  find(driver.ctx_set_current, "cuCtxSetCurrent");
  find(driver.ctx_get_device, "cuCtxGetDevice");
  find(driver.device_get, "cuDeviceGet");
  find(driver.device_attribute, "cuDeviceGetAttribute");
  find(driver.primary_retain, "cuDevicePrimaryCtxRetain");
  find(driver.event_create, "cuEventCreate");
  find(driver.event_record, "cuEventRecord");
  find(driver.event_query, "cuEventQuery");
  find(driver.event_elapsed, "cuEventElapsedTime");
  find(driver.stream_create, "cuStreamCreateWithPriority");
  find(driver.stream_wait_event, "cuStreamWaitEvent");
  find(driver.stream_is_capturing, "cuStreamIsCapturing");
  find(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(driver.mem_alloc, "cuMemAlloc_v2");
  find(driver.mem_info, "cuMemGetInfo_v2");
  find(driver.mem_alloc_async, "cuMemAllocAsync");
  find(driver.mem_free_async, "cuMemFreeAsync");
  find(driver.host_alloc, "cuMemHostAlloc");
  find(driver.host_free, "cuMemFreeHost");
  find(driver.copy_to_device, "cuMemcpyHtoDAsync_v2");
  find(driver.copy_to_host, "cuMemcpyDtoHAsync_v2");
  find(driver.copy_on_device, "cuMemcpyDtoDAsync_v2");
  find(driver.module_load, "cuModuleLoadData");
  find(driver.module_function, "cuModuleGetFunction");
  find(driver.launch, "cuLaunchKernel");
  return complete;
}

}  // namespace

const CudaDriver* CudaDriver::instance() noexcept {
  // Looks again at each call until it is found: the program may load CUDA at any time. Takes no
  // lock, because a forked child could find it held.
  static std::atomic<const CudaDriver*> found{nullptr};
  if (const CudaDriver* driver = found.load(std::memory_order_acquire)) return driver;
  CudaDriver driver{};
  if (!load(driver)) return nullptr;
  const CudaDriver* made = new CudaDriver(driver);
  const CudaDriver* none = nullptr;
  if (found.compare_exchange_strong(none, made)) return made;
  delete made;
  return none;
}

}  // namespace sonde::base
