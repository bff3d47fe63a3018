#include "engine/session/journal_keeper.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/base/swallowed.h"
#include "engine/journal/inspect.h"
#include "engine/model/process.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/session/contents.h"
#include "engine/session/counters.h"
#include "engine/session/left_behind.h"
#include "engine/spool/directory.h"
#include "engine/spool/recovery.h"

namespace sonde::session {

using base::LogLevel;
using record::Journal;

namespace {

constexpr std::int64_t kClockStepNs = 100'000'000;
constexpr std::string_view kLeaveRoom =
    "leave room on the disk for 65 MiB per process, and leave the files in live/ alone";

constexpr const char* kNoJournal =
    "; recording goes on in memory, but a killed process will lose what is not flushed";
constexpr const char* kNoDirectory =
    "; recording goes on in memory, and nothing of it will be on disk unless this is fixed before "
    "the run ends";

// The wall clock minus the monotonic one. It changes when the system clock is set.
std::int64_t clock_offset() {
  return base::wall_clock_ns() - static_cast<std::int64_t>(base::monotonic_ns());
}

void warn(const char* key, std::string text) noexcept {
  base::log_once(LogLevel::kWarning, "flush", key, std::move(text));
}

std::string counted(std::uint64_t count, const char* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string recovered_text(const model::Recovery& recovery, const std::string& output_dir) {
  std::string text =
      "an earlier run in " + output_dir +
      (recovery.ended == recovery.journals ? " could not write everything when it ended: "
                                           : " ended without shutdown: ") +
      std::to_string(recovery.spans) + " spans, " + std::to_string(recovery.marks) + " marks and " +
      std::to_string(recovery.open_scopes) + " open scopes are now in the spool";
  if (recovery.damaged != 0) {
    text += "; records that could not be read from its journal are lost, at least " +
            std::to_string(recovery.damaged);
  }
  return text;
}

}  // namespace

void speak(const Complaints& complaints) noexcept {
  try {
    for (const Complaint& complaint : complaints)
      base::log_once(LogLevel::kWarning, "profiler", complaint.key, complaint.text,
                     complaint.advice);
  } catch (const std::exception&) {
    base::note_swallowed("session");
  }
}

void JournalKeeper::open(Complaints& complaints) {
  if (!output_dir_.empty()) {
    if (const base::Status status = attach(); !status.ok()) {
      base::note_swallowed("journal");
      // One cause, one warning: what cannot hold the journal cannot hold the spool either.
      complaints.push_back({usable_ ? "journal" : "spool-write",
                            status.text() + (usable_ ? kNoJournal : kNoDirectory),
                            "make " + output_dir_ +
                                " writable, free space there, or choose another output directory"});
    }
  }
  Journal::instance().remember_session();
  lost_pages_ = Journal::lost_pages();
  bus_errors_at_start_ = Journal::bus_errors();
  lost_at_start_ = record::total_losses();
  clock_offset_ns_ = clock_offset();
}

base::Status JournalKeeper::attach() {
  const std::string live = base::join_path(output_dir_, journal::kLiveFolder);
  base::Status status = base::make_directories(live);
  if (status.ok())
    status = base::make_directories(base::join_path(output_dir_, spool::kSpoolFolder));
  usable_ = status.ok();
  if (!status.ok()) return status;
  path_ =
      base::join_path(live, journal::file_name(base::wall_clock_ns(), Journal::instance().key()));
  return Journal::instance().attach_file(path_);
}

void JournalKeeper::release() {
  Journal::instance().say_ended(all_written());
  // What could not be written stays in the file: the next session in this directory, or an autopsy,
  // moves it to the spool.
  Journal::instance().detach_file(all_written());
}

void JournalKeeper::end_by_signal() {
  Journal::instance().say_ended(all_written());
  if (all_written() && Journal::instance().on_file()) ::unlink(Journal::instance().path().c_str());
}

void JournalKeeper::grow() {
  if (base::Status status = Journal::instance().grow(); !status.ok()) {
    base::note_swallowed("journal");
    warn("journal-grow",
         status.text() +
             "; new records are in memory only, and a killed process loses what is not "
             "flushed: free some space");
  }
}

void JournalKeeper::keep(bool idle) {
  Journal& journal = Journal::instance();
  if (idle) journal.trim();
  journal.keep_warm();
  journal.give_sign_of_life();
  const record::Losses losses = record::total_losses().since(lost_earlier_);
  journal.note_lost_records(losses.spans + losses.marks);
  look_at_clock();
  look_for_trouble();
}

void JournalKeeper::look_at_clock() {
  const std::int64_t offset = clock_offset();
  if (std::llabs(offset - clock_offset_ns_) <= kClockStepNs) return;
  clock_offset_ns_ = offset;
  counts_.clock_steps.fetch_add(1, std::memory_order_relaxed);
  warn("clock-step",
       "the system clock was set while recording; times and durations of this session keep "
       "following the clock as it was when the session began");
}

void JournalKeeper::look_for_trouble() {
  const Journal& journal = Journal::instance();
  say_lost_pages();
  if (record::total_losses().since(lost_at_start_).spans != 0) {
    warn("spans-dropped", "spans come faster than they can be written and the newest are dropped");
  }
  if (Journal::bus_errors() != bus_errors_at_start_) {
    warn("bus-error", "pages of the journal " + journal.path() +
                          " could not be written; recording goes on in memory, but a killed "
                          "process will lose what is not flushed: free some space");
  }
  if (journal.file_is_gone()) {
    warn("journal-gone", "the journal " + journal.path() +
                             " was removed; a killed process would now lose what is not flushed");
  }
}

bool JournalKeeper::lost_pages() const noexcept { return Journal::lost_pages() != lost_pages_; }

void JournalKeeper::start_over() {
  Journal::instance().start_over();
  attributes_.store();
  lost_pages_ = Journal::lost_pages();
  unsaid_loss_ = true;
}

void JournalKeeper::say_lost_pages() noexcept {
  if (!std::exchange(unsaid_loss_, false)) return;
  warn("journal-lost",
       "the journal " + path_ +
           " was truncated; scopes that were open and records that were not flushed are lost, "
           "recording goes on in memory: leave the files in live/ alone while their process runs");
}

void JournalKeeper::recover_once() noexcept {
  if (std::exchange(recovered_, true) || !usable_ || output_dir_.empty()) return;
  try {
    recover();
  } catch (const std::exception& error) {
    base::log_failure("recovery", "recovery", "recovery of earlier runs stopped", error.what(),
                      "run sonde autopsy on the output directory");
  }
}

void JournalKeeper::recover() {
  const model::Recovery recovery =
      spool::recover_directory(output_dir_, Journal::instance().path());
  counts_.journals.store(recovery.journals);
  counts_.spans.store(recovery.spans + recovery.open_scopes);
  counts_.problems.store(recovery.problems.size() + recovery.damaged);
  if (recovery.spans + recovery.marks + recovery.open_scopes + recovery.damaged != 0) {
    const LogLevel level = recovery.damaged != 0 ? LogLevel::kWarning : LogLevel::kInfo;
    base::log_once(level, "flush", "recovered", recovered_text(recovery, output_dir_),
                   recovery.damaged != 0 ? kLeaveRoom : "");
  }
  for (std::size_t i = 0; i < recovery.problems.size(); ++i) base::note_swallowed("recovery");
  if (!recovery.problems.empty())
    warn("recovery", "a journal of an earlier run was left alone: " + recovery.problems.front());
}

void JournalKeeper::say_left_behind(const LeftBehind& left) const {
  const std::string not_written =
      " could not be written to " + base::join_path(output_dir_, spool::kSpoolFolder);
  const Journal& journal = Journal::instance();
  Contents lost = left.given_up;
  if (!journal.on_file()) {
    lost.add(left.waiting);
  } else if (left.batches != 0) {
    warn("left-behind", std::to_string(left.batches) + " batches" + not_written + " and stay in " +
                            journal.path() + ": free some space, then run sonde autopsy " +
                            output_dir_);
  }
  if (lost.spans + lost.marks == 0) return;
  warn("records-lost", (left.why.empty() ? "" : left.why + "; ") + counted(lost.spans, "span") +
                           " and " + counted(lost.marks, "mark") + not_written + " and are lost");
}

void JournalKeeper::count(Counters& all) const {
  all.clock_steps = counts_.clock_steps.load();
  all.recovered_journals = counts_.journals.load();
  all.recovered_spans = counts_.spans.load();
  all.recovery_problems = counts_.problems.load();
  Journal& journal = Journal::instance();
  const std::lock_guard lock(journal.backing());  // the drain thread may start the journal over
  all.journal = journal.path();
  all.journal_bytes = journal.file_bytes();
}

}  // namespace sonde::session
