#include "engine/run/directory_source.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "engine/journal/inspect.h"

namespace sonde::run {

namespace {

model::Fate fate_of(const journal::Report& journal) {
  if (journal.alive) return model::Fate::kRunning;
  if (journal.clean) return model::Fate::kShutDown;
  return journal.ended ? model::Fate::kEnded : model::Fate::kDead;
}

model::ProcessState state_of(const journal::Report& journal) {
  model::ProcessState process;
  process.pid = journal.pid;
  process.rank = journal.rank;
  process.world_size = journal.world_size;
  process.host = journal.host;
  process.fate = fate_of(journal);
  process.started_ns = journal.started_ns;
  process.last_sign_ns = journal.last_sign_ns;
  process.seen_ns = journal.seen_ns;
  process.lost_records = journal.lost_records;
  process.damaged = journal.damaged;
  process.unflushed_spans = journal.records.spans.size();
  process.unflushed_marks = journal.records.marks.size();
  for (const journal::OpenScopeView& open : journal.open)
    process.open.push_back({open.span, open.os_thread_id, open.lane, open.task, open.session});
  return process;
}

}  // namespace

base::Status DirectorySource::inspect(const std::string& process, Process& out) {
  journal::Report journal;
  base::Status status = inspect_journal(process, journal);
  if (status.ok()) out = {state_of(journal), std::move(journal.records)};
  return status;
}

// Files are named `<20-digit ns>-<id>.json`. The clocks of several machines may differ.
std::int64_t DirectorySource::sealed_ns(const std::string& batch) const {
  constexpr std::size_t kDigits = 20;
  constexpr std::int64_t kClockSlack = 10'000'000'000;
  const std::string name = batch.substr(batch.rfind('/') + 1);
  const char* const end = name.data() + std::min(name.size(), kDigits);
  std::int64_t created = 0;
  const auto result = std::from_chars(name.data(), end, created);
  if (result.ec != std::errc() || result.ptr != name.data() + kDigits)
    return std::numeric_limits<std::int64_t>::max();
  return created + kClockSlack;
}

}  // namespace sonde::run
