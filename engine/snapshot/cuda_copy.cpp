#include "engine/snapshot/cuda_copy.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/cuda_driver.h"
#include "engine/base/status.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/blob_copy.h"
#include "engine/snapshot/cuda_device.h"
#include "engine/snapshot/safetensors.h"

namespace sonde::snapshot {

using base::CudaCalls;
using base::CudaDriver;
using base::kCuSuccess;

namespace {

constexpr std::uint64_t kPiece = 4u << 20;
// How much of the device's memory stays free for the program itself.
constexpr std::size_t kSpareBytes = std::size_t{512} << 20;
constexpr int kPatience = 100'000;  // naps of 100 us

// Waits until the event has passed, by asking now and then: no call here blocks on the device.
// False: it failed, or it took too long.
bool await(CudaDevice& gpu, base::CuEvent event) {
  for (int naps = 0; naps < kPatience; ++naps) {
    {
      const CudaCalls calls(gpu.driver(), gpu.context());
      const base::CuResult result = gpu.driver().event_query(event);
      if (result != base::kCuNotReady) return result == kCuSuccess;
    }
    const timespec nap{0, 100'000};
    ::nanosleep(&nap, nullptr);
  }
  return false;
}

}  // namespace

// All tensors of a GPU, in the order of the file, or one tensor in the host's memory.
struct CudaCopy::Part {
  CudaDevice* gpu = nullptr;
  base::CuPointer staged = 0;
  bool counted = false;  // among the device's staged bytes
  BlobRoom room;
  std::unique_ptr<std::byte[]> host;
  std::uint64_t bytes = 0;

  std::unique_ptr<Workspace> pinned;  // two pieces, while it is read
  std::uint64_t fetched = 0;

  Part() = default;
  Part(Part&& other) noexcept
      : gpu(other.gpu),
        staged(std::exchange(other.staged, 0)),
        counted(std::exchange(other.counted, false)),
        room(std::move(other.room)),
        host(std::move(other.host)),
        bytes(other.bytes),
        pinned(std::move(other.pinned)),
        fetched(other.fetched) {}
  Part& operator=(Part&&) = delete;
  ~Part() { drop(); }

  void drop() noexcept {
    if (gpu != nullptr && (pinned || staged != 0)) {
      const CudaCalls calls(gpu->driver(), gpu->context());
      if (pinned) {
        // A piece may still be on its way.
        pinned->launched = gpu->driver().event_record(pinned->done, gpu->stream()) == kCuSuccess;
        gpu->give(std::move(pinned));
      }
      if (staged != 0) gpu->driver().mem_free_async(staged, gpu->stream());
    }
    staged = 0;
    if (counted) gpu->staged().fetch_sub(bytes);
    counted = false;
    host.reset();
    room = {};
  }

  base::CuEvent event(std::uint64_t piece) const {
    return piece % 2 == 0 ? pinned->begun : pinned->done;
  }

  // Begins to bring the next piece to the host.
  bool fetch() noexcept {
    if (fetched >= bytes) return true;
    const CudaCalls calls(gpu->driver(), gpu->context());
    const std::uint64_t piece = fetched / kPiece, size = std::min(kPiece, bytes - fetched);
    std::byte* to = pinned->host + piece % 2 * kPiece;
    const bool fine =
        gpu->driver().copy_to_host(to, staged + fetched, size, gpu->stream()) == kCuSuccess &&
        gpu->driver().event_record(event(piece), gpu->stream()) == kCuSuccess;
    fetched += size;
    return fine;
  }

  bool begin_reading() noexcept {
    const CudaCalls calls(gpu->driver(), gpu->context());
    pinned = gpu->take(0, 2 * kPiece);
    return pinned && fetch();
  }
};

CudaCopy::CudaCopy() = default;
CudaCopy::~CudaCopy() = default;

std::unique_ptr<CudaCopy> CudaCopy::take(Reserve reserve, std::vector<SafeTensor> described,
                                         std::span<const Placed> tensors) {
  std::unique_ptr<CudaCopy> copy(new CudaCopy);
  copy->reserve_ = reserve;
  std::vector<Placed> ordered;
  for (const std::size_t i : file_order(described)) {
    ordered.push_back(tensors[i]);
    copy->tensors_.push_back(std::move(described[i]));
  }
  return copy->gather(ordered) ? std::move(copy) : nullptr;
}

bool CudaCopy::gather(std::span<const Placed> tensors) {
  for (std::size_t i = 0; i < tensors.size();) {
    const Placed& first = tensors[i];
    std::size_t end = i + 1;
    std::uint64_t bytes = tensors_[i].bytes();
    if (first.device >= 0) {
      for (; end < tensors.size() && tensors[end].device == first.device &&
             tensors[end].stream == first.stream;
           ++end)
        bytes += tensors_[end].bytes();
    }
    Part part;
    part.bytes = bytes;
    if (bytes != 0 && first.device >= 0) {
      part.gpu = CudaDevice::of(first.device);
      if (part.gpu == nullptr) return false;
      if (!stage(tensors.subspan(i, end - i), i, part) &&
          !bring(tensors.subspan(i, end - i), i, part))
        return false;
    } else if (bytes != 0) {
      if (!make_room(part)) return false;
      copy_elements(first.tensor, part.host.get());
    }
    parts_.push_back(std::move(part));
    i = end;
  }
  return true;
}

bool CudaCopy::make_room(Part& part) {
  part.room = reserve_(part.bytes);
  if (!part.room) return false;
  part.host.reset(new (std::nothrow) std::byte[part.bytes]);
  return part.host != nullptr;
}

// A copy in the device's own memory. False: there is no room for it.
bool CudaCopy::stage(std::span<const Placed> tensors, std::size_t first, Part& part) {
  CudaDevice& gpu = *part.gpu;
  const CudaDriver& driver = gpu.driver();
  const CudaCalls calls(driver, gpu.context());
  std::size_t free = 0, total = 0;
  if (driver.mem_info(&free, &total) != kCuSuccess) return false;
  // Copies take at most a quarter of what would be free without them: the program's own memory
  // grows too.
  const std::uint64_t staged = gpu.staged().fetch_add(part.bytes);
  part.counted = true;
  if (free < part.bytes + kSpareBytes || (staged + part.bytes) > (free + staged) / 4) {
    part.drop();
    return false;
  }
  std::unique_ptr<Workspace> events = gpu.take(0, 0);
  if (!events || driver.mem_alloc_async(&part.staged, part.bytes, gpu.stream()) != kCuSuccess) {
    part.staged = 0;
    part.drop();
    return false;
  }
  const auto training = static_cast<base::CuStream>(tensors.front().stream);
  bool fine = driver.event_record(events->begun, training) == kCuSuccess &&
              driver.stream_wait_event(gpu.stream(), events->begun, 0) == kCuSuccess;
  base::CuPointer to = part.staged;
  for (std::size_t i = 0; fine && i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors_[first + i].bytes();
    if (bytes == 0) continue;
    const auto from = reinterpret_cast<std::uintptr_t>(tensors[i].tensor.data);
    fine = driver.copy_on_device(to, from, bytes, gpu.stream()) == kCuSuccess;
    to += bytes;
  }
  // Before anything that comes later on its stream can change the tensors, they are copied.
  fine = driver.event_record(events->done, gpu.stream()) == kCuSuccess &&
         driver.stream_wait_event(training, events->done, 0) == kCuSuccess && fine;
  events->launched = true;
  gpu.give(std::move(events));
  if (!fine) part.drop();
  return fine;
}

// Into the host's memory, at once.
bool CudaCopy::bring(std::span<const Placed> tensors, std::size_t first, Part& part) {
  CudaDevice& gpu = *part.gpu;
  if (!make_room(part)) return false;
  std::byte* to = part.host.get();
  const CudaCalls calls(gpu.driver(), gpu.context());
  const auto training = static_cast<base::CuStream>(tensors.front().stream);
  bool fine = true;
  for (std::size_t i = 0; fine && i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors_[first + i].bytes();
    const auto from = reinterpret_cast<std::uintptr_t>(tensors[i].tensor.data);
    // Into memory that is not pinned: it is there when the call returns.
    fine = bytes == 0 || gpu.driver().copy_to_host(to, from, bytes, training) == kCuSuccess;
    to += bytes;
  }
  return fine;
}

base::Status CudaCopy::next(std::span<const std::byte>& piece) noexcept {
  const auto lost = [] { return base::Status(EINVAL, "the GPU did not return the tensors"); };
  while (part_ < parts_.size()) {
    Part& part = parts_[part_];
    if (at_ >= part.bytes) {
      part.drop();
      ++part_;
      at_ = 0;
      continue;
    }
    const std::uint64_t size = std::min(kPiece, part.bytes - at_);
    if (part.host) {
      piece = {part.host.get() + at_, size};
    } else {
      if (!part.pinned && !part.begin_reading()) return lost();
      const std::uint64_t number = at_ / kPiece;
      if (!await(*part.gpu, part.event(number)) || !part.fetch()) return lost();
      piece = {part.pinned->host + number % 2 * kPiece, size};
    }
    at_ += size;
    return {};
  }
  piece = {};
  return {};
}

}  // namespace sonde::snapshot
