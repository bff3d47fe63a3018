#include "engine/probe/gpu_clock.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>

#include "engine/base/cuda_driver.h"
#include "engine/base/placement.h"

namespace sonde::probe {

namespace detail {
SONDE_HOT_DATA std::atomic<bool> g_gpu_on{false};
}  // namespace detail

namespace {

using base::CudaCalls;
using base::CudaDriver;
using base::kCuSuccess;

constexpr unsigned kDefaultEvent = 0;

struct Event {
  base::CuEvent handle = nullptr;
  base::CuContext context = nullptr;
  base::CuStream stream = nullptr;
  std::int64_t peak_bytes = -1;
  std::atomic<std::uint32_t> shares{0};
  std::uint32_t next = 0;  // in the list of free ones
  std::uint32_t device = 0;
};

constexpr std::uint32_t kPerChunk = 1024, kChunks = 64, kMaxDevices = 32;

struct Device {
  base::CuContext context = nullptr;
  base::CuDevice number = 0;
  std::atomic<std::uint64_t> free{0};  // event number below, change count above: no ABA
};

// Made at the first start; after a fork the child has none (its parent's events are of no use).
struct Clock {
  explicit Clock(const CudaDriver& found) : driver(found) {}

  const CudaDriver& driver;
  CurrentStream current_stream = nullptr;
  std::array<Device, kMaxDevices> devices;
  std::atomic<std::uint32_t> device_count{0};
  std::array<std::atomic<Event*>, kChunks> chunks{};
  std::atomic<std::uint32_t> made{1};  // 0 means none
  std::mutex making;

  Event& event(std::uint32_t number) {
    return chunks[number / kPerChunk].load(std::memory_order_acquire)[number % kPerChunk];
  }

  Device* device_of(base::CuContext context) {
    const std::uint32_t count = device_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (devices[i].context == context) return &devices[i];
    }
    const std::lock_guard lock(making);
    const std::uint32_t now = device_count.load();
    for (std::uint32_t i = count; i < now; ++i) {
      if (devices[i].context == context) return &devices[i];
    }
    if (now == kMaxDevices) return nullptr;
    devices[now].context = context;
    if (driver.ctx_get_device(&devices[now].number) != kCuSuccess) return nullptr;
    device_count.store(now + 1, std::memory_order_release);
    return &devices[now];
  }

  std::uint32_t take(Device& device) {
    std::uint64_t head = device.free.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(head) != 0) {
      const auto number = static_cast<std::uint32_t>(head);
      const std::uint64_t next = ((head >> 32) + 1) << 32 | event(number).next;
      if (device.free.compare_exchange_weak(head, next, std::memory_order_acq_rel)) return number;
    }
    return make(device);
  }

  std::uint32_t make(Device& device) {
    const std::lock_guard lock(making);
    const std::uint32_t number = made.load();
    if (number == kPerChunk * kChunks) return 0;
    std::atomic<Event*>& chunk = chunks[number / kPerChunk];
    if (chunk.load() == nullptr) chunk.store(new Event[kPerChunk], std::memory_order_release);
    Event& fresh = event(number);
    if (driver.event_create(&fresh.handle, kDefaultEvent) != kCuSuccess) return 0;
    fresh.context = device.context;
    fresh.device = static_cast<std::uint32_t>(&device - devices.data());
    made.store(number + 1, std::memory_order_release);
    return number;
  }

  void give(std::uint32_t number) {
    Event& event = this->event(number);
    event.peak_bytes = -1;
    Device& device = devices[event.device];
    std::uint64_t head = device.free.load(std::memory_order_relaxed), next;
    do {
      event.next = static_cast<std::uint32_t>(head);
      next = ((head >> 32) + 1) << 32 | number;
    } while (!device.free.compare_exchange_weak(head, next, std::memory_order_acq_rel));
  }
};

Clock* g_clock = nullptr;

void forget_in_child() {
  detail::g_gpu_on.store(false);
  g_clock = nullptr;  // leaked: its events belong to the parent's context
}

}  // namespace

bool gpu_start(CurrentStream current_stream) noexcept {
  if (g_clock == nullptr) {
    const CudaDriver* driver = CudaDriver::instance();
    if (driver == nullptr) return false;
    static const int kRegistered = ::pthread_atfork(nullptr, nullptr, forget_in_child);
    static_cast<void>(kRegistered);
    g_clock = new Clock(*driver);
  }
  g_clock->current_stream = current_stream;
  detail::g_gpu_on.store(true, std::memory_order_release);
  return true;
}

void gpu_stop() noexcept { detail::g_gpu_on.store(false); }

namespace detail {

std::uint32_t mark() noexcept {
  Clock& clock = *g_clock;
  base::CuContext context = nullptr;
  if (clock.driver.ctx_get_current(&context) != kCuSuccess || context == nullptr) return 0;
  Device* device = clock.device_of(context);
  void* stream = nullptr;
  if (device == nullptr || !clock.current_stream(device->number, &stream)) return 0;
  int capturing = base::kCuNotCapturing;
  if (clock.driver.stream_is_capturing(static_cast<base::CuStream>(stream), &capturing) !=
          kCuSuccess ||
      capturing != base::kCuNotCapturing)
    return 0;
  const std::uint32_t number = clock.take(*device);
  if (number == 0) return 0;
  Event& event = clock.event(number);
  event.stream = static_cast<base::CuStream>(stream);
  if (clock.driver.event_record(event.handle, event.stream) != kCuSuccess) {
    clock.give(number);
    return 0;
  }
  event.shares.store(1, std::memory_order_release);
  return number;
}

void add_ref(std::uint32_t event) noexcept {
  if (g_clock != nullptr) g_clock->event(event).shares.fetch_add(1, std::memory_order_relaxed);
}

void drop_ref(std::uint32_t event) noexcept {
  if (g_clock == nullptr) return;
  if (g_clock->event(event).shares.fetch_sub(1, std::memory_order_acq_rel) == 1)
    g_clock->give(event);
}

}  // namespace detail

void gpu_attach_peak(std::uint32_t event, std::int64_t bytes) noexcept {
  if (event != 0 && g_clock != nullptr) g_clock->event(event).peak_bytes = bytes;
}

std::int64_t gpu_peak(std::uint32_t event) noexcept {
  return event != 0 && g_clock != nullptr ? g_clock->event(event).peak_bytes : -1;
}

GpuTime gpu_elapsed(std::uint32_t start, std::uint32_t end, std::int64_t& ns) noexcept {
  if (start == 0 || end == 0 || g_clock == nullptr) return GpuTime::kUnknown;
  const CudaDriver& driver = g_clock->driver;
  const Event& first = g_clock->event(start);
  const Event& second = g_clock->event(end);
  if (first.context != second.context || first.stream != second.stream) return GpuTime::kUnknown;
  const CudaCalls quiet(driver, second.context);
  switch (driver.event_query(second.handle)) {
    case kCuSuccess:
      break;
    case base::kCuNotReady:
      return GpuTime::kPending;
    default:
      return GpuTime::kUnknown;
  }
  float milliseconds = 0;
  if (driver.event_elapsed(&milliseconds, first.handle, second.handle) != kCuSuccess ||
      !(milliseconds >= 0))
    return GpuTime::kUnknown;
  ns = std::llround(static_cast<double>(milliseconds) * 1e6);
  return GpuTime::kKnown;
}

std::uint32_t gpu_events_made() noexcept {
  return g_clock == nullptr ? 0 : g_clock->made.load() - 1;
}

}  // namespace sonde::probe
