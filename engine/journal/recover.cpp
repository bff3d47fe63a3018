// Each batch is announced in the journal before it is written (Header::pending). The process that
// finds an announcement asks the destination for the batch, and so knows whether it has to be
// written again. The last batch has the open scopes; once it has arrived, only the journal is left
// to remove.
#include "engine/journal/recover.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/base/status.h"
#include "engine/journal/commit.h"
#include "engine/journal/destination.h"
#include "engine/journal/file.h"
#include "engine/journal/inspect.h"
#include "engine/journal/open_scopes.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/record/layout.h"

namespace sonde::journal {

namespace {

constexpr std::size_t kRecordsPerBatch = 32 * 1024;

class Recoverer {
 public:
  Recoverer(File& file, Destination& destination, Recovery& result)
      : file_(file), destination_(destination), result_(result), reader_(file.view()) {}

  base::Status run() {
    const std::vector<record::Lane*> lanes = file_.lanes();
    if (settle_announcement(file_.header(), lanes, destination_) == Announcement::kAllMoved)
      return {};
    for (bool more = true; more;) {
      more = false;
      for (record::Lane* lane : lanes) {
        const std::size_t room =
            kRecordsPerBatch - std::min(kRecordsPerBatch, batch_.record_count());
        record::RingTail cursor = lane->tail;
        more = reader_.read(*lane, cursor, room, batch_, nullptr) || more;
        lane->pending_tail = cursor;
      }
      for (const model::Span& span : batch_.spans) last_sign_ = std::max(last_sign_, span.end_ns);
      for (const model::Mark& mark : batch_.marks) last_sign_ = std::max(last_sign_, mark.ts_ns);
      const std::uint64_t open = more ? 0 : add_open_scopes();
      if (base::Status status = write(!more); !status.ok()) return status;
      if (more) commit_tails(file_.header(), lanes);
      result_.spans += batch_.spans.size() - open;
      result_.marks += batch_.marks.size();
      result_.open_scopes += open;
      result_.damaged += reader_.damaged() - std::exchange(told_damaged_, reader_.damaged());
      batch_.clear();
    }
    return {};
  }

 private:
  std::uint64_t add_open_scopes() {
    model::ProcessState process;
    describe(file_.view(), process);
    base::Arena text;
    std::vector<OpenSlot> open;
    collect_open(file_.view(), reader_, text, open);
    last_sign_ = std::max(last_sign_, process.last_sign_ns);
    for (const OpenSlot& slot : open) last_sign_ = std::max(last_sign_, slot.scope.span.start_ns);
    // Innermost first, as they would have closed.
    for (auto it = open.rbegin(); it != open.rend(); ++it) {
      model::Span span = it->scope.span;
      span.name = batch_.arena.copy(span.name);
      span.attrs =
          join_attrs(attrs_, batch_.arena, span.attrs, {}, false, 0, record::ClosedBy::kDeath);
      span.end_ns = last_sign_;
      // Only those of its marks that were still in the journal. Each mark names its span.
      span.first_mark_id = static_cast<std::uint32_t>(batch_.mark_ids.size());
      span.mark_id_count =
          reader_.mark_lists().take(it->sequence, file_.header().key, batch_.mark_ids);
      batch_.spans.push_back(span);
    }
    return open.size();
  }

  base::Status write(bool last) {
    if (batch_.empty()) return {};
    record::Header& head = file_.header();
    batch_.batch_id = base::random_id();
    batch_.created_ns = std::max(base::wall_clock_ns(), head.anchor.wall_ns);
    announce(head, batch_.batch_id, batch_.created_ns, last);
    base::Status status = destination_.write(batch_);
    if (!status.ok()) withdraw(head);
    return status;
  }

  File& file_;
  Destination& destination_;
  Recovery& result_;
  RingReader reader_;
  base::JsonWriter attrs_;
  model::Batch batch_;
  std::int64_t last_sign_ = 0;
  std::uint64_t told_damaged_ = 0;
};

void recover_one(const std::string& path, Destination& destination, Recovery& result) {
  File file;
  base::Status status = file.open(path, true);
  if (status.error() == ENOENT) return;  // another process was faster
  // Its process lives, or another process recovers it.
  if (status.ok() && !file.try_lock()) return;
  if (status.ok() && file.gone()) return;
  const bool ended = status.ok() && file.header().clean == 0 && file.header().ended != 0;
  if (status.ok() && file.header().clean == 0) status = Recoverer(file, destination, result).run();
  if (!status.ok()) {
    file.withdraw_claim();
    result.problems.push_back(status.text());
    return;
  }
  if (::unlink(file.path().c_str()) != 0) {
    result.problems.push_back("cannot remove " + file.path() + ": " + std::strerror(errno) +
                              "; its records are in " + std::string(destination.name()) +
                              ", remove it by hand");
  }
  ++result.journals;
  if (ended) ++result.ended;
}

// A process that died while it created its journal leaves a file under a temporary name.
void remove_unborn(const std::string& live) {
  std::vector<std::string> names;
  if (!base::list_directory(live, std::string(kJournalSuffix) + ".tmp", names).ok()) return;
  for (const std::string& name : names) {
    const std::string path = base::join_path(live, name);
    struct stat info;
    if (::stat(path.c_str(), &info) != 0 || !base::is_stale(info)) continue;
    ::unlink(path.c_str());
  }
}

}  // namespace

Recovery recover(const std::string& live, const std::string& own, Destination& destination) {
  Recovery result;
  std::vector<std::string> names;
  if (base::Status status = base::list_directory(live, kJournalSuffix, names); !status.ok()) {
    result.problems.push_back(status.text());
    return result;
  }
  for (const std::string& name : names) {
    if (const std::string path = base::join_path(live, name); path != own)
      recover_one(path, destination, result);
  }
  remove_unborn(live);
  return result;
}

}  // namespace sonde::journal
