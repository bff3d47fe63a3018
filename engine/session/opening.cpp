// How a session begins: at once, or on demand with the first thing that is recorded.
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/base/swallowed.h"
#include "engine/record/journal.h"
#include "engine/record/names.h"
#include "engine/record/root.h"
#include "engine/session/engine.h"
#include "engine/session/journal_keeper.h"
#include "engine/session/session.h"
#include "engine/session/signals.h"
#include "engine/session/standstill.h"

namespace sonde::session {

using record::Journal;

void Session::begin() {
  Complaints complaints;
  {
    const Standstill standstill;
    {
      // The clock's anchor changes here. A thread that reads the trace while there is no session
      // drains, holding this lock, and uses the anchor.
      const std::lock_guard lock(shared_.lock);
      Journal::instance().begin_session({options_.rank, options_.local_rank, options_.world_size});
      open_root(complaints);
    }
    const std::lock_guard lock(waking_);
    begun_ = true;
    if (options_.on_demand && Journal::instance().lane_count() == 0) {
      Journal::instance().on_first_lane(&Engine::awaken_session);
    } else {
      // Something has been recorded already and must be kept, so the session opens at once.
      asleep_.store(false);
      open(complaints);
    }
  }
  speak(complaints);
}

// No thread has a lane, so none records: the journal may move to its file with the gate open.
void Session::awaken() {
  Complaints complaints;
  {
    const std::lock_guard lock(waking_);
    if (!begun_ || !asleep_.exchange(false)) return;
    try {
      open(complaints);
    } catch (const std::exception&) {  // out of memory: records wait in the rings for a flush()
      base::note_swallowed("session");
      loop_.go_without_thread();
    }
    // Threads that called this meanwhile wait for the lock.
    Journal::instance().on_first_lane(nullptr);
  }
  speak(complaints);
}

// True when nothing was recorded: the session leaves nothing behind.
bool Session::end_asleep() {
  const std::lock_guard lock(waking_);
  if (!asleep_.exchange(false)) return false;
  Journal::instance().on_first_lane(nullptr);
  record::forget_root();
  return true;
}

// The caller says what went wrong, once no lock is held and the gate is open: speaking may need the
// GIL.
void Session::open(Complaints& complaints) {
  keeper_.open(complaints);
  if (options_.handle_signals) watch_termination();
  const base::Status status = loop_.start();
  if (status.ok()) return;
  base::note_swallowed("drain thread");
  unwatch_termination();  // no thread would act on the signal
  complaints.push_back(
      {"no-thread",
       status.text() +
           "; what is recorded is written only when the session is flushed or ends, and what does "
           "not fit into memory until then is dropped and counted"});
}

void Session::open_root(Complaints& complaints) {
  std::uint32_t name = record::intern(options_.face.session_name());
  if (name == 0) name = record::intern(record::kAnySession);  // the table of names is full
  const record::OpenedRoot root = record::open_root(name, options_.attrs);
  root_id_ = base::make_id(Journal::instance().key(), root.sequence);
  if (root.left_out == 0) return;
  base::note_swallowed("session");
  complaints.push_back(
      {"session-attrs", std::to_string(root.left_out) +
                            " attributes of the session are left out, because there is room for " +
                            std::to_string(record::kSessionTextBytes) +
                            " bytes and all of them take " +
                            std::to_string(options_.attrs.size())});
}

}  // namespace sonde::session
