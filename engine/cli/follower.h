// Follows the processes of one output directory from outside: each span that closes comes out once,
// whether it is first seen in a journal or in a spool file. A span whose level depends on scopes
// that are not seen yet waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/cli/locate.h"
#include "engine/model/level.h"
#include "engine/model/trace.h"
#include "engine/spool/journal.h"
#include "engine/spool/reader.h"

namespace sonde::cli {

// Remembers the newest ids of a stream.
class RecentIds {
 public:
  // False when it is known already.
  bool add(const base::Id& id);

 private:
  static constexpr std::size_t kKept = std::size_t{1} << 20;
  std::unordered_set<base::Id, base::IdHash> ids_;
  std::deque<base::Id> order_;
};

class Follower {
 public:
  struct Process {
    std::int32_t pid = 0, rank = 0;
    bool running = true;
    bool died = false;        // without shutting down
    std::int64_t age_ns = 0;  // of its session, when it was last looked at
  };

  // Of what is in the spool already, the first look brings no more than `history` lines.
  Follower(Place place, std::size_t history, model::LineFilter filter);
  // Looks once. Lines of the spans that closed since the last time, in the order they closed.
  std::vector<std::string> poll();
  const std::map<std::string, Process>& processes() const noexcept {
    return processes_;
  }  // by journal
  std::size_t running() const noexcept;

 private:
  struct OwnedMark {
    model::Mark mark;
    std::string name, text;
  };
  struct Line {
    std::int64_t end_ns;
    std::int32_t rank;
    std::string text;
    std::string name;
    model::Place place;
    std::uint64_t poll = 0;  // in which it was first seen
  };

  void look_back();
  void look_at_journals();
  void look_at_files();
  void take(const model::Batch& batch);
  void choose(std::vector<Line>& lines);
  std::string text_of(const Line& line) const;
  void keep_mark(const model::Mark& mark);
  void add_line(const model::Span& span);

  Place place_;
  std::size_t history_;
  model::LineFilter filter_;
  model::Surroundings around_;  // of this look
  std::uint64_t polls_ = 0;
  bool first_ = true;
  spool::Reader reader_;
  std::map<std::string, Process> processes_;
  std::set<std::int32_t> ranks_;
  std::set<std::string> seen_files_;
  RecentIds seen_;
  // Marks come before the span they belong to closes, often by many polls.
  std::unordered_map<base::Id, std::deque<OwnedMark>, base::IdHash> marks_;
  std::size_t kept_marks_ = 0;
  std::vector<Line> lines_, waiting_;
};

}  // namespace sonde::cli
