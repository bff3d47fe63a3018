// What of a place somebody wants to see: a rank, a run, a name; and what to say when there is
// nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::cli {

struct Choice {
  std::optional<int> rank;
  std::string run;  // a number, "last", or empty for all
  std::string name;
};

// a, b, c and 5 more
std::string some_of(const std::set<std::int64_t>& numbers);
std::string some_of(const std::set<std::string, std::less<>>& names);

class Selection {
 public:
  explicit Selection(const Choice& choice) : choice_(choice) {}

  // Notes what is there. To be done with everything before settle().
  void look(const std::vector<model::Span>& spans);
  // Runs are known by now. False, having said why, when the one that is wanted is not there.
  bool settle(const std::string& directory);
  // Takes out the spans of other ranks and, once settled, of other runs.
  void narrow(std::vector<model::Span>& spans);

  // One line on standard error if the rank, or else the name, fits nothing. `names`: those that
  // are there.
  void explain_rank() const;
  void explain_name(std::vector<std::string_view> names) const;

  bool has_rank(int rank) const { return ranks_.contains(rank); }
  const model::Runs& runs() const noexcept { return runs_; }
  bool wants_run() const noexcept { return !choice_.run.empty(); }

 private:
  const Choice& choice_;
  model::Runs runs_;
  std::set<int> ranks_;
  std::size_t run_ = 0;  // 0: all, or not yet known
};

}  // namespace sonde::cli
