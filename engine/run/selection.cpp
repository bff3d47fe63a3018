#include "engine/run/selection.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/missing.h"
#include "engine/model/trace.h"

namespace sonde::run {

void Selection::look(const std::vector<model::Span>& spans) {
  runs_.add(spans);
  const model::Span* before = nullptr;
  for (const model::Span& span : spans) {
    if (before == nullptr || before->rank != span.rank) ranks_.insert(span.rank);
    before = &span;
  }
}

bool Selection::settle() {
  runs_.finish();
  if (!wants_run()) return true;
  const bool last = choice_.run.which == RunChoice::Which::kLast;
  run_ = last ? runs_.count() : choice_.run.number;
  run_is_missing_ = run_ == 0 || run_ > runs_.count();
  return !run_is_missing_;
}

void Selection::narrow(std::vector<model::Span>& spans) const {
  if (choice_.rank)
    std::erase_if(spans, [&](const model::Span& span) { return span.rank != *choice_.rank; });
  if (run_ != 0)
    std::erase_if(spans, [&](const model::Span& span) { return runs_.run_of(span) != run_; });
}

std::vector<model::Missing> Selection::missing() const {
  std::vector<model::Missing> out;
  if (run_is_missing_) {
    const bool last = choice_.run.which == RunChoice::Which::kLast;
    model::Missing& run = out.emplace_back(model::Missing{
        model::Missing::What::kRun, last ? "last" : std::to_string(choice_.run.number), {}});
    for (std::size_t i = 1; i <= runs_.count(); ++i) run.there.push_back(std::to_string(i));
  }
  if (auto rank = missing_rank()) out.push_back(*std::move(rank));
  return out;
}

std::optional<model::Missing> Selection::missing_rank() const {
  if (!choice_.rank || ranks_.empty() || ranks_.contains(*choice_.rank)) return {};
  model::Missing rank{model::Missing::What::kRank, std::to_string(*choice_.rank), {}};
  for (const int each : ranks_) rank.there.push_back(std::to_string(each));
  return rank;
}

void NameSearch::look(const std::vector<model::Span>& spans) {
  for (const model::Span& span : spans) {
    if (found_) return;
    found_ = span.name == wanted_;
    if (!found_ && names_.size() < kMostNames && !names_.contains(span.name))
      names_.emplace(span.name);
  }
  if (found_) names_.clear();
}

std::optional<model::Missing> NameSearch::missing() const {
  if (found_ || names_.empty()) return {};
  return model::Missing{model::Missing::What::kName, wanted_, {names_.begin(), names_.end()}};
}

}  // namespace sonde::run
