#include "engine/session/session.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/model/runs.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/session/exit_status.h"
#include "engine/session/signals.h"
#include "engine/spool/encode.h"
#include "engine/spool/journal.h"

namespace sonde::session {

using base::LogLevel;
using record::Journal;

namespace {

constexpr std::size_t kRecordsPerBatch = 16 * 1024;
constexpr std::uint64_t kFlushPatienceNs = 30'000'000'000;
constexpr std::size_t kKeptBufferBytes = 256 * 1024;
constexpr std::uint64_t kStatisticsPollNs = 5'000'000;
constexpr std::uint64_t kStatisticsPatienceNs = 2'000'000'000;  // of a flush, and of the end
constexpr std::uint64_t kBlobPatienceNs = 30'000'000'000;       // of the end of a session
constexpr std::uint64_t kBlobPatienceOnSignalNs = 3'000'000'000;
constexpr std::int64_t kClockStepNs = 100'000'000;

thread_local bool t_draining = false;

}  // namespace

Session::Session(Shared& shared, Options options)
    : shared_(shared), options_(std::move(options)), lines_(options_.lines) {
  if (options_.spool && !options_.output_dir.empty()) {
    directory_.emplace(options_.output_dir, options_.spool_max_bytes);
    outbox_.emplace(*directory_);
  }
  if (!options_.output_dir.empty()) {
    blobs_.emplace(base::join_path(options_.output_dir, "snapshots"), options_.blobs,
                   [] { Journal::instance().wake().raise(); });
  }
}

Session::~Session() = default;

void Session::close_scopes(bool for_good) {
  if (end_asleep()) return;
  record::ThreadState* thread = record::this_thread();
  const bool was_open = record::gate_open();
  record::close_gate();
  {
    const std::lock_guard lock(Journal::instance().backing());
    if (thread != nullptr) {
      record::close_everything(*thread);
    } else {
      all_written_ =
          false;  // no lane to be had: the scopes stay in the journal, which then stays too
    }
  }
  if (was_open && !for_good) record::open_gate();
}

void Session::finish() {
  stopping_.store(true);
  Journal::instance().wake().raise();
  if (thread_.joinable() || threadless_) {
    // The last drain is done here: on a busy machine it takes milliseconds until the thread gets
    // its turn. It ends by itself when it does.
    const std::lock_guard lock(watch_->lock);
    watch_->over = true;
    drain_here(true);
  }
  if (thread_.joinable()) thread_.detach();
  if (blobs_) blobs_->stop();
  if (awaits_exit_status_ && all_written_ && !end_file_.empty())
    amend_at_exit(std::move(end_file_), root_id_);
}

void Session::release() {
  const bool was_open = record::gate_open();
  record::close_gate();
  Journal& journal = Journal::instance();
  journal.header().ended = 1;
  if (all_written_) journal.header().clean = 1;
  // What could not be written stays where it is: the next profile() here, or an autopsy, moves it.
  journal.detach_file(all_written_);
  {
    const std::lock_guard lock(shared_.lock);
    journal_was_lost();
  }
  if (outbox_) outbox_->abandon();
  {
    // Threads that end write although the gate is closed.
    const std::scoped_lock lock(shared_.lock, journal.backing());
    shared_.drainer.release_blocks();
  }
  journal.end_session();
  if (was_open) record::open_gate();
  unwatch_termination();
}

void Session::flush() {
  if (t_draining || asleep()) return;  // a sink that flushes would wait for itself
  if (threadless_) return drain_here(false);
  const std::uint64_t mine = requested_.fetch_add(1) + 1;
  Journal::instance().wake().raise();
  const std::uint64_t deadline = base::monotonic_ns() + kFlushPatienceNs;
  while (done_.load() < mine && base::monotonic_ns() < deadline) {
    const std::uint32_t seen = done_event_.now();
    if (done_.load() < mine) done_event_.wait(seen, kFlushPatienceNs);
  }
}

void Session::run(Watch& watch, std::uint32_t seen_at_start) noexcept {
  // A session that is over at once does not have to wait for this thread to get another turn.
  constexpr std::uint64_t kMomentNs = 2'000'000;
  base::Event& wake = Journal::instance().wake();
  wake.wait(seen_at_start, kMomentNs);
  std::unique_lock lock(watch.lock);
  if (watch.over) return;
  t_draining = true;
  recover_once();
  while (!stopping_.load()) {
    const std::uint32_t seen = wake.now();
    const std::uint64_t requested = requested_.load();
    try_tick();
    done_.store(requested);
    done_event_.raise();
    if (termination_requested()) return finish_for_signal();
    // What takes long is done in slices, and only while nobody waits.
    while (wake.now() == seen && !Journal::instance().warm_ahead()) {
    }
    while (directory_ && wake.now() == seen && !directory_->scan_some()) {
    }
    if (!sleep(seen, watch, lock)) return;
  }
}

// A session that is over before its thread got its turn has recovered what it found all the same.
void Session::recover_once() noexcept {
  if (std::exchange(recovered_, true) || !output_usable_ || !directory_) return;
  try {
    recover_dead();
  } catch (const std::exception& error) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "recovery",
                   std::string("recovery of earlier runs stopped: ") + error.what());
  }
}

void Session::try_tick() noexcept {
  try {
    tick();
  } catch (const std::exception& error) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "tick",
                   std::string("a flush failed, and what it held may be lost: ") + error.what());
  }
}

void Session::end_draining() noexcept {
  try {
    last_tick(kBlobPatienceNs);
  } catch (const std::exception& error) {
    all_written_ = false;
    base::log_once(LogLevel::kWarning, "cirron.flush", "last-tick",
                   std::string("the last flush failed: ") + error.what() +
                       "; run sonde autopsy on the output directory");
  }
  captures_.close();
  done_.store(~std::uint64_t{0});
  done_event_.raise();
}

// What the drain thread would do, on the thread of whoever flushes or ends the session.
void Session::drain_here(bool last) noexcept {
  const std::lock_guard lock(draining_here_);
  if (ended_here_) return;
  t_draining = true;
  if (last) {
    recover_once();
    end_draining();
    ended_here_ = true;
  } else {
    requested_.fetch_add(1);  // somebody waits: statistics under way get their moment
    try_tick();
    done_.store(requested_.load());
  }
  t_draining = false;
}

// Until the next flush is due or somebody wakes us; false when the session is over, and perhaps
// gone. The sign of life does not wait that long: it is what an autopsy has to go by.
bool Session::sleep(std::uint32_t seen, Watch& watch, std::unique_lock<std::mutex>& lock) {
  Journal& journal = Journal::instance();
  for (std::uint64_t left = options_.flush_interval_ns; left != 0;) {
    const bool polls = captures_.awaits_statistics();
    const std::uint64_t nap = std::min(left, polls ? kStatisticsPollNs : kCapturesTogetherNs);
    lock.unlock();
    const bool woken = journal.wake().wait(seen, nap);
    lock.lock();
    if (watch.over) return false;
    if (woken) return true;
    left -= nap;
    if (captures_wait_.exchange(false) || (polls && captures_.look())) return true;
    journal.header().alive_ns.store(base::monotonic_ns(), std::memory_order_relaxed);
  }
  return true;
}

void Session::finish_for_signal() {
  try {
    if (options_.on_termination) options_.on_termination();
    const bool hung_up = termination_requested() == SIGHUP;
    attributes_.set(
        {{"ended_by", "\"signal\""}, {"signal", hung_up ? "\"SIGHUP\"" : "\"SIGTERM\""}});
    close_scopes(true);  // recording ends here, so that nothing is recorded behind the last look
    last_tick(kBlobPatienceOnSignalNs);
    Journal::instance().header().ended = 1;
    if (all_written_) {
      Journal::instance().header().clean = 1;
      if (Journal::instance().on_file()) ::unlink(Journal::instance().path().c_str());
    }
  } catch (...) {
    // The journal has it all.
  }
  die_by_termination();
}

// True when pages of the journal vanished (its file was truncated): what was just read may be
// nonsense. With the drain lock held.
bool Session::journal_was_lost() {
  if (Journal::lost_pages() == lost_pages_) return false;
  base::log_once(
      LogLevel::kWarning, "cirron.flush", "journal-lost",
      "the journal " + Journal::instance().path() +
          " was truncated; scopes that were open and records that were not flushed are lost, " +
          "recording goes on in memory: leave the files in live/ alone while their process runs");
  const bool was_open = record::gate_open();
  record::close_gate();
  Journal::instance().start_over();
  attributes_.store();
  shared_.drainer.start_over();
  if (outbox_) outbox_->forget_positions();
  lost_pages_ = Journal::lost_pages();
  if (was_open) record::open_gate();
  return true;
}

// Says once that the disk refuses; memory takes over by itself.
void Session::grow_journal() {
  if (base::Status status = Journal::instance().grow(); !status.ok()) {
    base::log_once(
        LogLevel::kWarning, "cirron.flush", "journal-grow",
        status.text() +
            "; further records are kept in memory only until they are flushed: free some space");
  }
}

void Session::last_tick(std::uint64_t blob_patience_ns) {
  tick();
  if (blobs_) blobs_->hurry();
  await_captures(std::min(blob_patience_ns, kStatisticsPatienceNs), blob_patience_ns);
  captures_.give_up();
  deliver_captures();
  if (lines_.wanted()) lines_.end_pass(true);
  if (!outbox_ || outbox_->waiting() == 0) return;
  if (const std::uint64_t records = outbox_->drop_snapshots(); records != 0) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "snapshots-lost",
                   std::to_string(records) + " snapshot records could not be written to " +
                       directory_->path() + " and are lost: free space or make it writable");
  }
  if (outbox_->waiting() == 0) return;
  all_written_ = false;
  if (!output_usable_) return;  // said at the start
  const std::string left =
      std::to_string(outbox_->waiting()) + " batches could not be written to " + directory_->path();
  const Journal& journal = Journal::instance();
  base::log_once(LogLevel::kWarning, "cirron.flush", "left-behind",
                 journal.on_file()
                     ? left + " and stay in " + journal.path() +
                           ": free some space, then run sonde autopsy " + options_.output_dir
                     : left + " and are lost: there was no room for a journal either");
}

void Session::tick() {
  Journal& journal = Journal::instance();
  grow_journal();
  const std::uint64_t before = batches_.load(std::memory_order_relaxed);
  drain_batches();
  await_gpu();
  const bool awaited = !stopping_.load() && requested_.load() != done_.load();
  await_captures(awaited ? kStatisticsPatienceNs : 0, 0);
  const bool idle = batches_.load(std::memory_order_relaxed) == before;
  if (idle) journal.trim();
  // Between ticks the buffers of a large batch are better off with the system.
  if (idle && json_.size() > kKeptBufferBytes) {
    json_ = {};
    batch_ = {};
  }
  journal.keep_warm();
  journal.header().alive_ns.store(base::monotonic_ns(), std::memory_order_relaxed);
  const record::Losses losses = record::total_losses();
  journal.header().lost_records = losses.spans + losses.marks;
  look_around();
}

void Session::drain_batches() {
  if (outbox_) outbox_->retry();
  {
    const std::lock_guard lock(shared_.lock);
    journal_was_lost();
    shared_.drainer.begin_pass();
  }
  for (bool more = true; more;) {
    Moved moved;
    more = next_batch(moved);
    if (!batch_.empty() && !is_only_the_session()) {
      deliver(std::move(moved));
    } else if (outbox_) {
      outbox_->skip(std::move(moved));
    } else {
      commit(moved);
    }
    if (more) grow_journal();  // under heavy recording there is no waiting for the next tick
  }
  if (lines_.wanted()) lines_.end_pass(false);
}

// A child process that was woken and then recorded nothing (a hook looked, and saw nothing of
// interest) leaves no run behind either.
bool Session::is_only_the_session() const {
  return options_.on_demand && batches_.load(std::memory_order_relaxed) == 0 &&
         batch_.record_count() == 1 && batch_.spans.size() == 1 &&
         batch_.spans.front().name == model::kSessionName;
}

// Spans that wait for the GPU are left for the next tick. Where somebody waits for them, the GPU
// gets a moment to finish; at the end of the session they are written as they are.
void Session::await_gpu() {
  constexpr std::uint64_t kForFlush = 200'000'000, kAtTheEnd = 2'000'000'000;
  const bool last = stopping_.load();
  if (!last && requested_.load() == done_.load()) return;
  const std::uint64_t deadline = base::monotonic_ns() + (last ? kAtTheEnd : kForFlush);
  while (shared_.drainer.take_waited()) {
    if (base::monotonic_ns() >= deadline) {
      if (!last) return;
      shared_.drainer.waiting().give_up(true);
    }
    const timespec moment{0, 500'000};
    ::nanosleep(&moment, nullptr);
    drain_batches();
  }
  shared_.drainer.waiting().give_up(false);
}

// Fills batch_; true when another one has to follow.
bool Session::next_batch(Moved& moved) {
  batch_.clear();
  const std::lock_guard lock(shared_.lock);
  const bool more = shared_.drainer.collect(kRecordsPerBatch, batch_, moved);
  if (journal_was_lost()) {
    batch_.clear();
    moved = {};
    return false;
  }
  earlier_.clear();
  if (lines_.wanted()) {
    for (const model::Span& span : batch_.spans) shared_.memory.copy_open_marks(span.id, earlier_);
    open_.clear();
    shared_.drainer.append_open(open_);
  }
  shared_.memory.add(batch_);
  return more;
}

void Session::deliver(Moved moved) {
  const record::Header& head = Journal::instance().header();
  batch_.batch_id = base::random_id();
  batch_.created_ns =
      std::max(base::to_wall_ns(head.anchor, base::monotonic_ns()), last_created_ns_ + 1);
  last_created_ns_ = batch_.created_ns;
  batches_.fetch_add(1, std::memory_order_relaxed);
  if (outbox_ || options_.on_batch) {
    json_.clear();
    spool::encode_batch(json_, batch_);
  }
  if (outbox_) {
    outbox_->send(batch_.created_ns, batch_.batch_id, json_.view(), std::move(moved),
                  batch_.snapshots.size());
    if (awaits_exit_status_) note_end_file();
  } else {
    commit(moved);
  }
  if (options_.on_batch) options_.on_batch(json_.view());
  if (lines_.wanted() && !batch_.spans.empty()) lines_.write(batch_, earlier_, open_);
}

void Session::note_end_file() {
  const auto is_root = [this](const model::Span& span) { return span.id == root_id_; };
  if (std::ranges::any_of(batch_.spans, is_root)) {
    end_file_ = base::join_path(directory_->path(),
                                spool::batch_file_name(batch_.created_ns, batch_.batch_id));
  }
}

void Session::look_around() {
  const std::int64_t offset = clock_offset();
  if (std::llabs(offset - clock_offset_ns_) > kClockStepNs) {
    clock_offset_ns_ = offset;
    clock_steps_.fetch_add(1, std::memory_order_relaxed);
    base::log_once(LogLevel::kWarning, "cirron.flush", "clock-step",
                   "the system clock was set while recording; times and durations of this session "
                   "keep following the clock as it was at "
                   "profile(); nothing needs to be done");
  }
  Journal& journal = Journal::instance();
  if (const record::Losses lost = record::total_losses(); lost.spans > lost_at_start_.spans) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "spans-dropped",
                   "spans come faster than they can be written and the newest are dropped; "
                   "span_drop_count in health() counts them: record less often");
  }
  if (Journal::bus_errors() != 0) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "bus-error",
                   "pages of the journal " + journal.path() +
                       " could not be written; recording goes on in memory: free some space");
  }
  if (journal.file_is_gone()) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "journal-gone",
                   "the journal " + journal.path() +
                       " was removed; a killed process would now lose what is not flushed: "
                       "shutdown() and profile() make a new one");
  }
}

void Session::recover_dead() {
  const spool::Recovery recovery =
      spool::recover_directory(options_.output_dir, Journal::instance().path());
  recovered_journals_.store(recovery.journals);
  recovered_spans_.store(recovery.spans + recovery.open_scopes);
  recovery_problems_.store(recovery.problems.size());
  if (recovery.spans + recovery.marks + recovery.open_scopes != 0) {
    base::log_once(
        LogLevel::kInfo, "cirron.flush", "recovered",
        "an earlier run in " + options_.output_dir +
            (recovery.ended == recovery.journals ? " could not write everything when it ended: "
                                                 : " ended without shutdown: ") +
            std::to_string(recovery.spans) + " spans, " + std::to_string(recovery.marks) +
            " marks and " + std::to_string(recovery.open_scopes) +
            " open scopes of it are now in the spool");
  }
  if (!recovery.problems.empty()) {
    base::log_once(LogLevel::kWarning, "cirron.flush", "recovery",
                   "a journal of an earlier run was left alone: " + recovery.problems.front());
  }
}

Counters Session::counters() const {
  Counters all;
  all.mode =
      outbox_ && outbox_->waiting() > 0 ? Counters::Mode::kDegraded : Counters::Mode::kNormal;
  if (directory_) {
    all.evicted_files = directory_->evicted();
    all.spool_bytes = directory_->bytes();
    all.write_failures = outbox_->failures();
    all.lost_batches = outbox_->lost();
    all.waiting_batches = outbox_->waiting();
  }
  all.blobs = blobs_ ? blobs_->written() : 0;
  all.dropped_blobs = blobs_ ? blobs_->lost() : 0;
  all.snapshots = snapshots_.load() + (outbox_ ? outbox_->snapshots_written() : 0);
  all.dropped_snapshots = captures_.lost() + (outbox_ ? outbox_->snapshots_lost() : 0);
  all.clock_steps = clock_steps_.load();
  all.recovered_journals = recovered_journals_.load();
  all.recovered_spans = recovered_spans_.load();
  all.recovery_problems = recovery_problems_.load();
  all.flushed_batches = batches_.load();
  all.journal = Journal::instance().path();
  all.journal_bytes = Journal::instance().file_bytes();
  return all;
}

}  // namespace sonde::session
