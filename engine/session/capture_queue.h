// Snapshots of tensors on their way through a session: captures, the files of their raw tensors,
// and when to wake the drain thread for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session/captures.h"
#include "engine/session/counters.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

// Captures wake the drain thread at most this often. If epochs are short, one wake-up serves
// several captures.
inline constexpr std::uint64_t kCapturesTogetherNs = 250'000'000;

class CaptureQueue {
 public:
  // Raw tensors go below `output_dir`; empty: there is no place for them.
  CaptureQueue(const std::string& output_dir, const snapshot::BlobOptions& options);

  // -- any thread --

  // See Engine::add_capture.
  void add(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob, bool more);
  snapshot::BlobRoom reserve_blob(std::uint64_t bytes);
  void count(Counters& all) const;

  // -- the draining thread (drain_loop.h) --

  // The captures that wait.
  Captures& waiting() noexcept { return captures_; }
  // Whether captures were added since the last call without waking the drain thread.
  bool take_unannounced() noexcept { return unannounced_.exchange(false); }
  // The session ends: the files are written without pauses.
  void hurry() noexcept;

  // The thread that ends the session. Files that are not written by now are given up.
  void stop_writing();

 private:
  Captures captures_;
  std::optional<snapshot::BlobWriter> blobs_;
  std::atomic<bool> unannounced_{false};
  std::atomic<std::uint64_t> last_wake_ns_{0};
};

}  // namespace sonde::session
