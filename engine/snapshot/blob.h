// Raw tensors on their way to a file, written by one thread in the background while the host goes
// on with its work: it has the lowest priority, and its pieces are small.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/safetensors.h"

namespace sonde::snapshot {

// Memory that a blob may use until it is written; given back when this goes away.
class BlobRoom {
 public:
  BlobRoom() = default;
  BlobRoom(std::shared_ptr<std::atomic<std::uint64_t>> taken, std::uint64_t bytes)
      : taken_(std::move(taken)), bytes_(bytes) {}
  BlobRoom(BlobRoom&&) noexcept = default;
  BlobRoom& operator=(BlobRoom&& other) noexcept {
    std::swap(taken_, other.taken_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BlobRoom() {
    if (taken_) taken_->fetch_sub(bytes_);
  }
  explicit operator bool() const noexcept { return taken_ != nullptr; }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> taken_;
  std::uint64_t bytes_ = 0;
};

// Where the bytes come from: a copy in memory, or a device that hands them over in pieces.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  // The tensors in the order of the file (see file_order).
  virtual std::span<const SafeTensor> tensors() const noexcept = 0;
  // Called on the writer's thread. Hands over the next piece of the tensors' bytes, a few
  // megabytes, which is valid until the next call; an empty piece is the end. May wait, but not for
  // long.
  virtual base::Status next(std::span<const std::byte>& piece) noexcept = 0;
};

struct BlobOptions {
  std::uint64_t max_waiting_bytes = ~std::uint64_t{0};  // never more than a quarter of what is free
};

// Any thread may call any of it.
class BlobWriter {
 public:
  // `wake` is called on the writer's thread whenever a blob is done with.
  BlobWriter(std::string directory, BlobOptions options, std::function<void()> wake);
  ~BlobWriter();
  // The session is waiting for the files: writes without pauses from now on.
  void hurry() noexcept;
  // Gives up what is not written. Waits a moment for the thread, which may hang on a dead disk.
  void stop();

  // To be called before copying. Empty if too much waits already, which is logged once; lose() then
  // counts the blob.
  BlobRoom reserve(std::uint64_t bytes);
  // Counts a blob that could not be copied; logs that, unless reserve() has logged it already.
  void lose() noexcept;
  // Becomes `<directory>/<span id>/<kind>.safetensors`. The result completes the capture: with the
  // file's address, or without one where it could not be written.
  std::unique_ptr<Pending> write(const base::Id& span_id, Kind kind,
                                 std::unique_ptr<BlobSource> source);

  std::uint64_t written() const noexcept;
  std::uint64_t lost() const noexcept;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// An absolute path as a URI.
std::string file_uri(std::string_view path);

}  // namespace sonde::snapshot
