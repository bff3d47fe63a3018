// Reads a source batch by batch, stored ones and what processes have not stored yet.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/model/trace.h"
#include "engine/run/source.h"

namespace sonde::run {

// What could not be read, beside what could.
struct Skipped {
  static constexpr std::size_t kNamed = 20;
  std::size_t read = 0;               // files and journals
  std::size_t skipped = 0;            // likewise
  std::vector<std::string> problems;  // the first kNamed of them

  bool nothing_readable() const noexcept { return read == 0 && skipped != 0; }
};

// No span and no mark comes twice.
class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  enum class Order {
    kJournalsFirst,
    kJournalsLast,  // children come before their parents, except across threads
  };
  // Calls `take` with every batch. In those of journals, scopes still open are spans without an
  // end. A batch may be changed or moved from.
  void each_batch(Detail detail, Order order, const std::function<void(model::Batch&)>& take);

  // The two parts of it. Journals have to come first, also where they are used last: a record that
  // is stored meanwhile is then seen twice, and dropped once, instead of not at all. For the same
  // reason read_journals() refreshes the source at its end: a batch that was stored before its
  // journal was read, but after the source was listed, is in neither otherwise.
  std::vector<model::Batch> read_journals();
  bool read_batch(const std::string& batch, Detail detail, model::Batch& out);

  Source& source() const noexcept { return source_; }
  const Skipped& skipped() const noexcept { return skipped_; }

 private:
  // True if it is fine. What is gone since the source was looked at is no problem.
  bool note(const base::Status& status);
  // Refreshes the source, unless no process could have stored anything since the last time.
  base::Status list_again();

  Source& source_;
  Skipped skipped_;
  std::unordered_set<base::Id, base::IdHash> in_journal_;
};

}  // namespace sonde::run
