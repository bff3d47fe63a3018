// How a session begins: at once, or on demand with the first thing that is recorded.
#include <pthread.h>

#include <cstring>
#include <mutex>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/names.h"
#include "engine/session/session.h"
#include "engine/session/signals.h"
#include "engine/spool/directory.h"
#include "engine/spool/journal.h"

namespace sonde::session {

using base::LogLevel;
using record::Journal;

void Session::begin() {
  const bool was_open = record::gate_open();
  record::close_gate();
  {
    // Without a session whoever flushes drains by himself, and what he reads are times by the
    // anchor.
    const std::lock_guard lock(shared_.lock);
    Journal::instance().begin_session({options_.rank, options_.local_rank, options_.world_size});
    open_root();
  }
  // Where something was recorded already there is something to keep.
  asleep_.store(options_.on_demand && Journal::instance().lane_count() == 0);
  Complaints complaints;
  if (asleep_.load()) {
    Journal::instance().on_first_lane(&Engine::awaken_session);
  } else {
    complaints = open();
  }
  if (was_open) record::open_gate();
  speak(complaints);
}

// Nobody has a lane, so nobody records: the journal may move to its file with the gate open.
void Session::awaken() {
  Complaints complaints;
  {
    const std::lock_guard lock(waking_);
    if (!asleep_.exchange(false)) return;
    complaints = open();
    Journal::instance().on_first_lane(nullptr);  // who came meanwhile waits for the lock
  }
  speak(complaints);
}

// True when nothing was recorded: the session was never there.
bool Session::end_asleep() {
  const std::lock_guard lock(waking_);
  if (!asleep_.exchange(false)) return false;
  Journal::instance().on_first_lane(nullptr);
  __atomic_store_n(&Journal::instance().header().session.sequence, 0, __ATOMIC_RELAXED);
  return true;
}

// What goes wrong is said by the caller, once no lock is held: speaking may need the GIL.
Session::Complaints Session::open() {
  Complaints complaints;
  if (directory_) {
    if (const base::Status status = open_journal(); !status.ok()) {
      // One cause, one warning: what cannot hold the journal cannot hold the spool either.
      complaints.push_back(
          {output_usable_ ? "journal" : "spool-write",
           status.text() +
               "; recording goes on in memory, but a killed process will lose what is not "
               "flushed: make " +
               options_.output_dir + " writable or pass profile(path=...)"});
    }
  }
  Journal::instance().remember_session();
  lost_pages_ = Journal::lost_pages();
  lost_at_start_ = record::total_losses();
  clock_offset_ns_ = clock_offset();
  if (options_.handle_signals) watch_termination();
  const std::uint32_t seen = Journal::instance().wake().now();
  const base::Status status = base::start_thread(
      thread_, "sonde-drain", [this, watch = watch_, seen] { run(*watch, seen); });
  if (status.ok()) return complaints;
  threadless_ = true;
  unwatch_termination();  // nobody would act on the signal
  complaints.push_back(
      {"no-thread",
       status.text() +
           "; what is recorded is written only by flush() and shutdown(), and what does not fit "
           "into memory until then is dropped and counted: allow the process more threads "
           "(ulimit -u) or memory (ulimit -v)"});
  return complaints;
}

void Session::speak(const Complaints& complaints) {
  for (const Complaint& complaint : complaints)
    base::log_once(LogLevel::kWarning, "cirron.profiler", complaint.key, complaint.text);
}

base::Status Session::open_journal() {
  const std::string live = base::join_path(options_.output_dir, spool::kLiveFolder);
  base::Status status = base::make_directories(live);
  if (status.ok()) status = base::make_directories(directory_->path());
  output_usable_ = status.ok();
  if (!status.ok()) return status;
  std::string name =
      spool::batch_file_name(base::wall_clock_ns(), Journal::instance().header().key);
  name.replace(name.size() - std::strlen(".json"), std::string::npos, spool::kJournalSuffix);
  return Journal::instance().attach_file(base::join_path(live, name));
}

void Session::open_root() {
  Journal& journal = Journal::instance();
  record::Header& head = journal.header();
  record::OpenScope& root = head.session;
  root.parent = 0;
  root.start_ns = base::monotonic_ns();
  root.index = 0;
  root.closing = root.aux = 0;
  root.name = record::intern("cirron.session");
  root.static_attrs = 0;
  root.text_offset = root.name_length = 0;
  root.attrs_length = static_cast<std::uint16_t>(
      options_.attrs.size() <= record::kSessionTextBytes ? options_.attrs.size() : 0);
  root.flags.store(0);
  std::memcpy(head.session_text, options_.attrs.data(), root.attrs_length);
  head.session_thread_id = static_cast<std::uint64_t>(pthread_self());
  // A lane number that no lane can have: the root's sequence is nobody else's.
  const std::uint64_t sequence = (std::uint64_t{record::kMaxLanes} << record::kSequenceBits) +
                                 static_cast<std::uint64_t>(root.start_ns & 0xFFFFFFFFFu) + 1;
  root_id_ = base::make_id(head.key, sequence);
  __atomic_store_n(&root.sequence, sequence, __ATOMIC_RELAXED);
}

}  // namespace sonde::session
