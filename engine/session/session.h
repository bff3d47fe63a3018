// One session from start to stop. Its parts: the journal's keeper, the queue of captures, the
// sinks, the transfer from the rings into them, and the drain loop, which decides when.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/base/id.h"
#include "engine/session/attributes.h"
#include "engine/session/capture_queue.h"
#include "engine/session/counters.h"
#include "engine/session/drain_loop.h"
#include "engine/session/journal_keeper.h"
#include "engine/session/options.h"
#include "engine/session/shared.h"
#include "engine/session/sinks.h"
#include "engine/session/transfer.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

class Session {
 public:
  Session(Shared& shared, Options options);

  // Quiet: the caller keeps other recording threads of the host away (it holds the GIL).
  void begin();
  // Any thread, before it takes the first lane: what an on-demand session has put off.
  void awaken();
  bool asleep() const noexcept { return asleep_.load(); }

  // The end, in three steps (see Engine::begin_stop). Quiet: closes what is open. `for_good`:
  // nothing is recorded any more.
  void close_scopes(bool for_good = false);
  // Not quiet, because sinks may need the GIL: writes everything.
  void finish();
  // Quiet: the journal goes back to memory.
  void release();

  // Any thread.
  void flush();
  void add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                   bool more);
  snapshot::BlobRoom reserve_blob(std::uint64_t bytes) { return captures_.reserve_blob(bytes); }
  Counters counters() const;
  Attributes& attributes() noexcept { return keeper_.attributes(); }
  // Before close_scopes: the exit status of the process is to become part of the session's span.
  void await_exit_status();

 private:
  void open(Complaints& complaints);
  bool end_asleep();
  void open_root(Complaints& complaints);
  void end_by_signal();

  Shared& shared_;
  Options options_;
  Sinks sinks_;
  CaptureQueue captures_;
  JournalKeeper keeper_;
  Transfer transfer_;
  DrainLoop loop_;
  base::Id root_id_;
  bool awaits_exit_status_ = false;
  std::recursive_mutex waking_;
  bool begun_ = false;        // guarded by waking_: begin() has decided whether it sleeps
  std::atomic<bool> asleep_;  // on demand, and nothing was recorded yet
};

}  // namespace sonde::session
