// Follows the processes of a source from outside: each span that closes comes out once, whether it
// is first seen in a journal or in a stored batch. So does each mark, when it is first seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/model/level.h"
#include "engine/model/live.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/mark_keeper.h"
#include "engine/run/recent_ids.h"
#include "engine/run/source.h"

namespace sonde::run {

// What the first look brings of the spans that are stored already.
struct History {
  std::size_t spans = 0;  // at most so many, the newest; and no more marks than spans
  // Which of them, given the scopes around a span, as far as these are known. Empty: all.
  std::function<bool(const model::Span&, const model::Place&)> wanted;
};

class Follower {
 public:
  explicit Follower(Source& source, History history = {});

  // Looks once. What cannot be read is tried again at the next look, except for a batch that is
  // gone or damaged: that is for good, because a batch is complete as soon as it has its name.
  model::Look look();

  std::size_t running() const noexcept;
  bool has_seen_any() const noexcept { return !processes_.empty(); }

 private:
  // The rank and pid of a process. Containers that share a directory often have the same pids.
  using Owner = std::pair<std::int32_t, std::int32_t>;
  struct Followed {
    model::ProcessEvent as_event;
    base::Id session;  // null: not known
    bool running = true;
    bool died = false;
    bool end_is_told = false;
  };

  bool refresh(model::Look& out);
  void note(const base::Status& status, model::Look& out);
  void look_at_processes(model::Look& out);
  void look_at(const std::string& key, model::Look& out);
  void look_back(model::Look& out);
  void look_at_batches(model::Look& out);
  bool read(const std::string& key, model::Batch& batch, model::Look& out);
  void take(const model::Batch& batch);
  void add_span(const model::Span& span);
  void add_mark(const model::Mark& mark);
  bool is_wanted(const model::Span& span) const;
  void keep_newest();
  void know_session(const model::Span& session);
  void know_api(const Owner& owner, const model::Span& session);
  const std::string& api_of(const Owner& owner) const;
  void tell_ends(model::Look& out);

  Source& source_;
  History history_;
  bool first_ = true;                  // the next look is the first
  model::Surroundings around_;         // of this look
  std::shared_ptr<base::Arena> text_;  // of this look
  std::map<std::string, Followed> processes_;
  std::map<Owner, std::string> apis_;
  std::string newest_api_;
  std::set<std::int32_t> ranks_;
  std::vector<std::string> before_;  // batches that were stored before the first look
  std::unordered_set<std::string> seen_batches_;
  std::set<std::string> told_;  // problems
  RecentIds seen_;
  MarkKeeper keeper_;
  std::vector<model::LiveSpan> spans_;  // of this look
  std::vector<model::Mark> marks_;      // of this look
};

}  // namespace sonde::run
