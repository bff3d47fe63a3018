// Reads a source batch by batch: the stored batches, and what processes have not stored yet.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/model/skipped.h"
#include "engine/model/trace.h"
#include "engine/run/source.h"

namespace sonde::run {

using model::Skipped;

// Hands out no span and no mark twice.
class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  enum class Order {
    kJournalsFirst,
    kJournalsLast,  // children come before their parents, except across threads
  };
  // Calls `take` with every batch. In a batch from a journal, open scopes are spans without an end.
  // `take` may change the batch or move from it.
  void each_batch(Detail detail, Order order, const std::function<void(model::Batch&)>& take);

  // The two parts of each_batch(). Journals have to be read first, even if they are used last: a
  // record that is stored meanwhile is then seen twice, and dropped once, instead of not at all.
  // For the same reason read_journals() refreshes the source at its end: records that were stored
  // after the source was listed, but before their journal was read, are in a batch that was not
  // listed.
  std::vector<model::Batch> read_journals();
  bool read_batch(const std::string& batch, Detail detail, model::Batch& out);

  Source& source() const noexcept { return source_; }
  const Skipped& skipped() const noexcept { return skipped_; }

 private:
  // True if the status is ok. A file that is gone since the source was listed is not a problem.
  bool note(const base::Status& status);
  // Refreshes the source, unless no process could have stored anything since the last time.
  base::Status list_again();

  Source& source_;
  Skipped skipped_;
  std::unordered_set<base::Id, base::IdHash> in_journal_;
};

}  // namespace sonde::run
