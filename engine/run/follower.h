// Follows the processes of a source from outside: each span that closes comes out once, whether it
// is first seen in a journal or in a stored batch. A span whose level depends on scopes that are
// not seen yet waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
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

class Follower {
 public:
  // The first look brings at most `history` of the spans that are stored already.
  Follower(Source& source, std::size_t history, model::LineFilter filter);

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
  struct Waiting {
    model::LiveSpan live;
    std::uint64_t look = 0;                   // in which it was first seen
    std::shared_ptr<const base::Arena> text;  // of that look
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
  void choose(std::vector<Waiting>& spans);
  void know_session(const model::Span& session);
  void know_api(const Owner& owner, const model::Span& session);
  const std::string& api_of(const Owner& owner) const;
  void tell_ends(model::Look& out);

  Source& source_;
  std::size_t history_;
  model::LineFilter filter_;
  model::Surroundings around_;  // of this look
  std::uint64_t looks_ = 0;
  std::shared_ptr<base::Arena> text_;  // of this look
  std::map<std::string, Followed> processes_;
  std::map<Owner, std::string> apis_;
  std::string newest_api_;
  std::set<std::int32_t> ranks_;
  std::vector<std::string> before_;  // batches that were stored before the first look
  std::unordered_set<std::string> seen_batches_;
  std::set<std::string> told_;  // problems
  RecentIds seen_;
  MarkKeeper marks_;
  std::vector<Waiting> spans_;    // of this look
  std::vector<Waiting> waiting_;  // for the next
};

}  // namespace sonde::run
