// Moving what a dead process left into the spool, exactly once. Each batch is announced in the journal
// before its file is written (Header::pending): whoever finds an announcement looks whether the file is
// there, and so knows whether the batch has to be written again. The announcement of the last batch,
// the one with the open scopes, is 2: with that file in place only the journal is left to remove.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/base/json_writer.h"
#include "engine/spool/commit.h"
#include "engine/spool/directory.h"
#include "engine/spool/encode.h"
#include "engine/spool/journal_file.h"

namespace sonde::spool {

namespace {

constexpr std::size_t kRecordsPerBatch = 32 * 1024;

class Recoverer {
 public:
  Recoverer(JournalFile& file, Directory& spool, Recovery& result) : file_(file), spool_(spool), result_(result), reader_(file.view()) {}

  base::Status run() {
    if (settle_announcement(file_.header(), file_.view(), spool_) == Announcement::kAllMoved) return {};
    const auto lanes = file_.view().lanes();
    std::int64_t last_sign = 0;
    for (bool more = true; more;) {
      more = false;
      for (const record::Lane* lane : lanes) {
        record::RingTail cursor = lane->tail;
        reader_.read(*lane, cursor, kRecordsPerBatch, batch_, nullptr);
        const_cast<record::Lane*>(lane)->pending_tail = cursor;
        more = more || cursor.position < lane->head.load();
      }
      for (const model::Span& span : batch_.spans) last_sign = std::max(last_sign, span.end_ns);
      for (const model::Mark& mark : batch_.marks) last_sign = std::max(last_sign, mark.ts_ns);
      count();
      if (!more) add_open_scopes(last_sign);
      if (base::Status status = write(!more); !status.ok()) return status;
    }
    return {};
  }

 private:
  void count() {
    result_.spans += batch_.spans.size();
    result_.marks += batch_.marks.size();
  }

  void add_open_scopes(std::int64_t last_sign) {
    JournalReport report;
    describe(file_.view(), report);
    collect_open(file_.view(), reader_, report);
    last_sign = std::max(last_sign, report.last_sign_ns);
    for (const OpenScopeView& open : report.open) last_sign = std::max(last_sign, open.span.start_ns);
    // Innermost first, as they would have closed.
    for (auto it = report.open.rbegin(); it != report.open.rend(); ++it) {
      model::Span span = it->span;
      span.name = batch_.arena.copy(span.name);
      span.attrs = join_attrs(batch_.arena, span.attrs, {}, false, 0, record::ClosedBy::kDeath);
      span.end_ns = last_sign;
      batch_.spans.push_back(span);
      ++result_.open_scopes;
    }
  }

  base::Status write(bool last) {
    if (!batch_.empty()) {
      const record::Header& head = file_.header();
      batch_.batch_id = base::random_id();
      batch_.created_ns = std::max(base::wall_clock_ns(), head.anchor.wall_ns);
      base::JsonWriter json;
      encode_batch(json, batch_);
      announce(file_.header(), batch_.batch_id, batch_.created_ns, last);
      if (base::Status status = spool_.write(batch_.created_ns, batch_.batch_id, json.view()); !status.ok()) {
        file_.header().pending.store(0);
        return status;
      }
      result_.files.push_back(batch_file_name(batch_.created_ns, batch_.batch_id));
    }
    if (!last) commit_tails(file_.header(), file_.view());
    batch_.clear();
    return {};
  }

  JournalFile& file_;
  Directory& spool_;
  Recovery& result_;
  RingReader reader_;
  model::Batch batch_;
};

void recover_one(const std::string& path, Directory& spool, Recovery& result) {
  JournalFile file;
  base::Status status = file.open(path, true);
  if (status.error() == ENOENT) return;  // somebody else was faster
  if (status.ok() && !file.try_lock()) {
    ++result.running;
    return;
  }
  if (status.ok() && file.gone()) return;
  if (status.ok() && file.header().clean == 0) status = Recoverer(file, spool, result).run();
  if (!status.ok()) {
    ++result.refused;
    result.problems.push_back(status.text());
    return;
  }
  if (::unlink(path.c_str()) != 0) {
    result.problems.push_back("cannot remove " + path + ": " + std::strerror(errno) + "; its records are in the spool, remove it by hand");
  }
  ++result.journals;
}

}  // namespace

Recovery recover_directory(const std::string& output_dir) {
  Recovery result;
  const std::string live = base::join_path(output_dir, kLiveFolder);
  std::vector<std::string> names;
  if (base::Status status = base::list_directory(live, kJournalSuffix, names); !status.ok()) {
    result.problems.push_back(status.text());
    return result;
  }
  Directory spool(output_dir, ~std::uint64_t{0});
  for (const std::string& name : names) recover_one(base::join_path(live, name), spool, result);
  return result;
}

}  // namespace sonde::spool
