// Which spans of a source are wanted: those of a rank, a run, a name; and what of that is missing.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/missing.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::run {

struct Choice {
  std::optional<int> rank;
  std::string run;  // a number, "last", or empty for all
  std::string name;
};

class Selection {
 public:
  explicit Selection(const Choice& choice) : choice_(choice) {}

  // Notes what is there. Everything has to be noted before settle().
  void look(const std::vector<model::Span>& spans);
  // The runs are known by now. False when the run that is wanted is not there.
  bool settle();
  // Takes out the spans of other ranks and, once settled, of other runs.
  void narrow(std::vector<model::Span>& spans) const;

  // What was chosen and fits nothing: the run, if that is not there, and the rank, unless there is
  // no span of any rank. After settle().
  std::vector<model::Missing> missing() const;
  std::optional<model::Missing> missing_rank() const;

  bool wants_run() const noexcept { return !choice_.run.empty(); }
  const model::Runs& runs() const noexcept { return runs_; }
  model::Runs take_runs() noexcept { return std::move(runs_); }

 private:
  Choice choice_;
  model::Runs runs_;
  std::set<int> ranks_;
  std::size_t run_ = 0;  // 0: all, or not yet known
  bool run_is_missing_ = false;
};

// Nothing is missing where no name is wanted, where it is among the names, or where there are none.
std::optional<model::Missing> missing_name(const std::string& wanted,
                                           std::vector<std::string_view> names);

}  // namespace sonde::run
