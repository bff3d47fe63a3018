// Selects the spans of a rank, a run or a name, and tells which of these is not there.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/missing.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::run {

struct RunChoice {
  enum class Which { kAll, kLast, kNumber };
  Which which = Which::kAll;
  std::size_t number = 0;  // kNumber: counted from 1
};

struct Choice {
  std::optional<int> rank;
  RunChoice run;
  std::string name;
};

class Selection {
 public:
  explicit Selection(const Choice& choice) : choice_(choice) {}

  // Notes the runs and ranks that are there. Has to see all spans before settle().
  void look(const std::vector<model::Span>& spans);
  // Numbers the runs. False when the wanted run is not there.
  bool settle();
  // Removes the spans of other ranks and, once settled, of other runs.
  void narrow(std::vector<model::Span>& spans) const;

  // After settle(): the run if it is not there, and the rank if there are only spans of others.
  std::vector<model::Missing> missing() const;
  std::optional<model::Missing> missing_rank() const;

  bool wants_run() const noexcept { return choice_.run.which != RunChoice::Which::kAll; }
  const model::Runs& runs() const noexcept { return runs_; }
  model::Runs take_runs() noexcept { return std::move(runs_); }

 private:
  Choice choice_;
  model::Runs runs_;
  std::set<int> ranks_;
  std::size_t run_ = 0;  // 0: all, or not yet known
  bool run_is_missing_ = false;
};

// Looks for a name, and notes the names that are there until it is found. An empty name is not
// looked for.
class NameSearch {
 public:
  explicit NameSearch(std::string wanted) : wanted_(std::move(wanted)), found_(wanted_.empty()) {}
  void look(const std::vector<model::Span>& spans);
  // Nothing where the name was found, or where there was no span at all.
  std::optional<model::Missing> missing() const;

 private:
  static constexpr std::size_t kMostNames = std::size_t{1} << 16;
  std::string wanted_;
  bool found_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace sonde::run
