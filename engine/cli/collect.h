// Everything a place holds, in memory: spool files, and what running or dead processes have not
// written yet.
#pragma once

#include <cstddef>
#include <functional>
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

  void add(model::Batch& batch);  // takes it over
};

// Reads a place batch by batch. Unreadable files cost one line on standard error each (the first
// few) and are counted.
class Collector {
 public:
  // Takes out of a batch what nobody wants to see.
  using Filter = std::function<void(model::Batch&)>;

  // Quiet: unreadable files are only counted, for who reads the place twice.
  explicit Collector(const Place& place, bool quiet = false) : place_(place), quiet_(quiet) {}

  // Calls `take` with every batch: first the journals', in which scopes still open are spans
  // without an end, or last when `journals_last` (children before parents); no span twice.
  void each_batch(spool::Detail detail, bool journals_last,
                  const std::function<void(model::Batch&)>& take);
  // All that the filter leaves.
  Trace collect(const Filter& filter);
  // The `count` of them that ended last, newest first, with their marks. Reads from the newest file
  // backwards and no further than it has to.
  Trace collect_last(std::size_t count, const Filter& filter);

  std::size_t files_read() const noexcept { return files_read_; }
  std::size_t files_skipped() const noexcept { return files_skipped_; }
  // Speaks of what was skipped; false when nothing at all could be read.
  bool report_skipped() const;

 private:
  void read_journals(std::vector<model::Batch>& out);
  bool read_file(const std::string& path, spool::Detail detail, model::Batch& batch);
  void skipped(const base::Status& status);

  const Place& place_;
  bool quiet_;
  spool::Reader reader_;
  std::size_t files_read_ = 0;
  std::size_t files_skipped_ = 0;
  std::unordered_set<base::Id, base::IdHash> in_journal_;
};

}  // namespace sonde::cli
