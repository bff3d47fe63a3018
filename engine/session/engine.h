// The one engine of a process: it drains what threads recorded and hands it to the sinks. While a
// session is open, a thread does that; without one it happens when the trace is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/trace.h"
#include "engine/session/attributes.h"
#include "engine/session/counters.h"
#include "engine/session/memory.h"
#include "engine/session/options.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

class Engine {
 public:
  static Engine& instance();

  // "Quiet" means: no other thread of the host records at this moment (the caller holds the GIL).
  // Threads that record from C++ alone are kept out by the gate, for less than a millisecond.

  // Quiet. Begins a session. Never fails: where there is no file or no thread, the session goes on
  // without it, and a message says so once.
  void start(Options options);
  // Ending a session, in three steps. The second is not quiet, because sinks may need the GIL.
  void begin_stop();  // quiet: closes every open scope
  void await_stop();  // not quiet: drains and writes
  // Quiet. Moves the journal back to memory. Returns what is left of the session, including its
  // sinks. The caller drops it when it is no longer quiet, because destroying a sink may need the
  // GIL.
  std::shared_ptr<void> finish_stop();
  // Not quiet. Waits 2 s at most until the host's log handler has what was logged.
  static void await_messages() noexcept;
  // Is this a thread of the profiler that calls a sink or a log handler of the host at this moment?
  // It must not begin a session, nor take the three steps.
  static bool hands_over() noexcept;
  // Any thread, before the three steps. If hands_over() is true, keeps `stop`, calls it without any
  // lock once the sink or handler has returned, and returns true.
  static bool put_off_stop(std::function<void()> stop);
  bool active() const noexcept;
  // Calls Session::awaken of the session, if there is one.
  static void awaken_session() noexcept;
  // In a forked child: the parent's session was on demand and nothing had been recorded.
  bool slept_at_fork() const noexcept;

  // Any thread. Attributes of the session's span, from now on; without a session nothing happens.
  void annotate(const std::vector<Attributes::Member>& members);
  // Before begin_stop, where the process is about to end: its exit status becomes part of the
  // session's span, once it is known (see exit_status.h).
  void await_exit_status();

  // Any thread. The records of the capture go through the sinks as soon as they are complete;
  // without a session they are dropped and counted.
  // `blob`: the raw tensors of the records in `in_blob`; `mode` is the snapshot mode. Null while
  // `in_blob` is not empty: the copy failed, which is logged and counted here. `more`: the other
  // kind of the same epoch follows.
  void add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob = nullptr,
                   bool more = false);
  // Any thread. To be called before raw tensors are copied. Empty: there is no room now, and a
  // message says so.
  snapshot::BlobRoom reserve_blob(std::uint64_t bytes);

  // Not quiet. Returns when everything recorded before the call has gone through the sinks, or
  // after 30 s; sinks that are not durable are waited for 2 s at most. Without a session the
  // records stay in the rings, for the first write of the next session. When little room is left,
  // they are moved into the memory for trace().
  void flush();
  // Quiet. Everything held in memory plus the scopes that are open now, in the order they ended.
  // Returns how many older ones had to make room.
  std::uint64_t read_trace(model::Batch& out, MarksAs how = MarksAs::kMarks);
  // Drops what is held for reading back.
  void forget_trace();
  // Ids of the marks of one span, open or closed, as far as they are held.
  void read_mark_ids(const base::Id& span, std::vector<base::Id>& out);
  // The counters of the session, or of the last one once it has ended.
  Counters counters() const;

 private:
  Engine();
  void forget_after_fork() noexcept;
  std::shared_ptr<class Session> session() const;
  void move_to_memory();
  template <typename Read>
  void read(Read work);
  struct State;
  State* state_;
};

}  // namespace sonde::session
