#include "engine/cli/process_state.h"

namespace sonde::cli {

report::ProcessState process_state(const spool::JournalReport& journal) {
  report::ProcessState process;
  process.pid = journal.pid;
  process.rank = journal.rank;
  process.world_size = journal.world_size;
  process.host = journal.host;
  process.fate = journal.alive   ? report::Fate::kRunning
                 : journal.clean ? report::Fate::kShutDown
                 : journal.ended ? report::Fate::kEnded
                                 : report::Fate::kDead;
  process.started_ns = journal.started_ns;
  process.last_sign_ns = journal.last_sign_ns;
  process.lost_records = journal.lost_records;
  process.damaged = journal.damaged;
  process.unflushed_spans = journal.records.spans.size();
  process.unflushed_marks = journal.records.marks.size();
  process.last_spans = journal.records.spans;
  process.last_marks = journal.records.marks;
  for (const spool::OpenScopeView& open : journal.open) {
    process.open.push_back({open.span, open.os_thread_id, open.lane, open.task, open.session});
  }
  return process;
}

}  // namespace sonde::cli
