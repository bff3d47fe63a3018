#include "engine/hook/leaves.h"

#include <algorithm>

namespace sonde::hook {

std::size_t Leaves::first(Leaf::Kind kind) const noexcept {
  const auto found = std::find_if(leaves_.begin(), leaves_.end(),
                                  [&](const Leaf& leaf) { return leaf.kind == kind; });
  return static_cast<std::size_t>(found - leaves_.begin());
}

bool Leaves::only_loads() const noexcept {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.kind == Leaf::Kind::kLoad; });
}

bool Leaves::only_evaluation(bool foreign) const noexcept {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [&](const Leaf& leaf) { return leaf.evaluates || (foreign && leaf.foreign); });
}

std::size_t Leaves::behind_loads() const noexcept {
  std::size_t behind = 0;
  while (behind < leaves_.size() && leaves_[behind].kind == Leaf::Kind::kLoad) ++behind;
  return behind;
}

std::size_t Leaves::behind_sure() const noexcept {
  std::size_t behind = leaves_.size();
  while (behind > 0 && !leaves_[behind - 1].sure) --behind;
  return behind;
}

bool Leaves::only_sure_behind(std::size_t leaf) const noexcept {
  for (std::size_t i = leaf + 1; i < leaves_.size(); ++i) {
    if (!leaves_[i].sure) return false;
  }
  return leaf + 1 < leaves_.size();
}

std::size_t Leaves::behind_stuck() const noexcept {
  std::size_t behind = leaves_.size();
  while (behind > 0 && !leaves_[behind - 1].stuck) --behind;
  return behind;
}

bool Leaves::has_hinted() const noexcept {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.evaluates && !leaf.sure; });
}

std::size_t Leaves::first_foreign() const noexcept {
  std::size_t first = leaves_.size();
  while (first > 0 && leaves_[first - 1].foreign) --first;
  return first;
}

std::size_t Leaves::find(std::uint64_t sequence) const noexcept {
  const auto found = std::find_if(leaves_.begin(), leaves_.end(),
                                  [&](const Leaf& leaf) { return leaf.sequence == sequence; });
  return static_cast<std::size_t>(found - leaves_.begin());
}

void Leaves::add(const Leaf& leaf) {
  if (full()) {
    record::settle_provisional(*leaves_.front().record);
    leaves_.erase(leaves_.begin());
  }
  leaves_.push_back(leaf);
}

Leaves Leaves::split(std::size_t from) {
  Leaves rest;
  const auto at = leaves_.begin() + static_cast<std::ptrdiff_t>(std::min(from, leaves_.size()));
  rest.leaves_.assign(at, leaves_.end());
  leaves_.erase(at, leaves_.end());
  return rest;
}

void Leaves::move(std::size_t from, std::uint64_t parent) noexcept {
  for (std::size_t i = from; i < leaves_.size(); ++i)
    record::move_provisional(*leaves_[i].record, parent);
}

void Leaves::use(std::uint64_t sequence) noexcept {
  for (Leaf& leaf : leaves_) leaf.used = leaf.used || leaf.sequence == sequence;
}

bool Leaves::watched() const noexcept {
  return std::any_of(leaves_.begin(), leaves_.end(), [](const Leaf& leaf) { return leaf.watched; });
}

bool Leaves::none_used() const noexcept {
  return watched() &&
         std::none_of(leaves_.begin(), leaves_.end(), [](const Leaf& leaf) { return leaf.used; });
}

bool Leaves::was_passed_over(std::size_t leaf) const noexcept {
  if (!leaves_[leaf].watched || leaves_[leaf].used) return false;
  return std::any_of(
      leaves_.begin() + static_cast<std::ptrdiff_t>(leaf), leaves_.end(), [&](const Leaf& later) {
        return later.kind == Leaf::Kind::kForward && !later.sure &&
               (later.used || !later.watched) && later.module == leaves_[leaf].module;
      });
}

std::size_t Leaves::first_used(bool sure) const noexcept {
  std::size_t first = 0;
  bool trains = false;  // from there on, as far as can be told
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if ((leaf.watched && leaf.used) || leaf.kind == Leaf::Kind::kBackward) return first;
    if (was_passed_over(i) || (sure && leaf.sure && !trains)) {
      first = i + 1;
      trains = false;
    } else {
      trains = trains || (leaf.kind != Leaf::Kind::kLoad && !leaf.watched);
    }
  }
  return first;
}

}  // namespace sonde::hook
