// What we use of the CUDA driver's interface (stable since CUDA 11.2), found in the process that
// uses it: nothing is linked, and a process that has no CUDA does not get any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sonde::base {

using CuResult = int;
using CuDevice = int;
using CuPointer = std::uint64_t;
using CuContext = struct CUctx_st*;
using CuStream = struct CUstream_st*;
using CuEvent = struct CUevent_st*;
using CuModule = struct CUmod_st*;
using CuFunction = struct CUfunc_st*;

inline constexpr CuResult kCuSuccess = 0, kCuNotReady = 600;
inline constexpr int kCuNotCapturing = 0, kCuCaptureModeRelaxed = 2;

struct CudaDriver {
  // Null: the process has no CUDA driver, or one that lacks any of these.
  static const CudaDriver* instance() noexcept;

  CuResult (*ctx_get_current)(CuContext*);
  CuResult (*ctx_set_current)(CuContext);
  CuResult (*ctx_get_device)(CuDevice*);
  CuResult (*device_get)(CuDevice*, int ordinal);
  CuResult (*device_attribute)(int*, int attribute, CuDevice);
  CuResult (*primary_retain)(CuContext*, CuDevice);
  CuResult (*event_create)(CuEvent*, unsigned flags);
  CuResult (*event_record)(CuEvent, CuStream);
  CuResult (*event_query)(CuEvent);
  CuResult (*event_elapsed)(float*, CuEvent, CuEvent);
  CuResult (*stream_create)(CuStream*, unsigned flags, int priority);
  CuResult (*stream_wait_event)(CuStream, CuEvent, unsigned flags);
  CuResult (*stream_is_capturing)(CuStream, int*);
  CuResult (*exchange_capture_mode)(int*);
  CuResult (*mem_alloc)(CuPointer*, std::size_t);
  CuResult (*mem_info)(std::size_t* free, std::size_t* total);
  CuResult (*mem_alloc_async)(CuPointer*, std::size_t, CuStream);
  CuResult (*mem_free_async)(CuPointer, CuStream);
  CuResult (*host_alloc)(void**, std::size_t, unsigned flags);
  CuResult (*host_free)(void*);
  CuResult (*copy_to_device)(CuPointer, const void*, std::size_t, CuStream);
  CuResult (*copy_to_host)(void*, CuPointer, std::size_t, CuStream);
  CuResult (*copy_on_device)(CuPointer, CuPointer, std::size_t, CuStream);
  CuResult (*module_load)(CuModule*, const void* image);
  CuResult (*module_function)(CuFunction*, CuModule, const char* name);
  CuResult (*launch)(CuFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     CuStream, void** arguments, void** extra);
};

// While it lives, calls of this thread go to that context and do not invalidate a graph capture
// that another thread has under way.
class CudaCalls {
 public:
  CudaCalls(const CudaDriver& driver, CuContext context) : driver_(driver) {
    driver_.exchange_capture_mode(&mode_);
    driver_.ctx_get_current(&before_);
    changed_ = before_ != context;
    if (changed_) driver_.ctx_set_current(context);
  }
  ~CudaCalls() {
    if (changed_) driver_.ctx_set_current(before_);
    driver_.exchange_capture_mode(&mode_);
  }
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;

 private:
  const CudaDriver& driver_;
  int mode_ = kCuCaptureModeRelaxed;
  CuContext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace sonde::base
