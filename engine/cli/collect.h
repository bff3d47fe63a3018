// Everything a place holds, in memory: spool files, and what running or dead processes have not
// written yet.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/cli/locate.h"
#include "engine/model/trace.h"
#include "engine/spool/reader.h"

namespace sonde::cli {

struct Trace {
  std::vector<model::Span> spans;
  std::vector<model::Mark> marks;
  std::vector<base::Id> mark_ids;
  std::vector<base::Arena> arenas;  // what the views point into

  // Takes over a batch, or one rank's part of it.
  void add(model::Batch& batch, std::optional<int> rank);
};

// Reads a place batch by batch. Unreadable files cost one line on standard error each (the first
// few) and are counted.
class Collector {
 public:
  explicit Collector(const Place& place) : place_(place) {}

  // Calls `take` with every batch: first the journals', in which scopes still open are spans
  // without an end, or last when `journals_last` (children before parents); no span twice.
  void each_batch(spool::Detail detail, bool journals_last,
                  const std::function<void(model::Batch&)>& take);
  // All of it, or one rank's.
  Trace collect(std::optional<int> rank);
  // The `count` spans that ended last, newest first, with their marks. Reads from the newest file
  // backwards and no further than it has to.
  Trace collect_last(std::size_t count, std::optional<int> rank);

  std::size_t files_read() const noexcept { return files_read_; }
  std::size_t files_skipped() const noexcept { return files_skipped_; }
  // Speaks of what was skipped; false when nothing at all could be read.
  bool report_skipped() const;

 private:
  void read_journals(std::vector<model::Batch>& out);
  bool read_file(const std::string& path, spool::Detail detail, model::Batch& batch);
  void skipped(const base::Status& status);

  const Place& place_;
  spool::Reader reader_;
  std::size_t files_read_ = 0;
  std::size_t files_skipped_ = 0;
  std::unordered_set<base::Id, base::IdHash> in_journal_;
};

}  // namespace sonde::cli
