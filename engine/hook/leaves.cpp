#include "engine/hook/leaves.h"

#include <algorithm>

namespace sonde::hook {

bool Leaves::has(Leaf::Kind kind) const noexcept {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [&](const Leaf& leaf) { return leaf.kind == kind; });
}

bool Leaves::only_loads() const noexcept {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.kind == Leaf::Kind::kLoad; });
}

bool Leaves::only_evaluation() const noexcept {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.evaluates; });
}

void Leaves::add(const Leaf& leaf) {
  if (full()) {
    record::settle_provisional(*leaves_.front().record);
    leaves_.erase(leaves_.begin());
  }
  leaves_.push_back(leaf);
}

void Leaves::move(std::size_t from, std::uint64_t parent) noexcept {
  for (std::size_t i = from; i < leaves_.size(); ++i)
    record::move_provisional(*leaves_[i].record, parent);
}

void Leaves::settle() noexcept {
  for (const Leaf& leaf : leaves_) record::settle_provisional(*leaf.record);
  leaves_.clear();
}

void Leaves::use(std::uint64_t sequence) noexcept {
  for (Leaf& leaf : leaves_) leaf.used = leaf.used || leaf.sequence == sequence;
}

bool Leaves::watched() const noexcept {
  return std::any_of(leaves_.begin(), leaves_.end(), [](const Leaf& leaf) { return leaf.watched; });
}

std::size_t Leaves::first_used() const noexcept {
  std::size_t first = 0;
  bool trains = false;  // from there on, as far as can be told
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (leaf.watched && leaf.used) return first;
    if (leaf.watched || (leaf.evaluates && !trains)) {
      first = i + 1;
      trains = false;
    } else {
      trains = trains || leaf.kind != Leaf::Kind::kLoad;
    }
  }
  return first < leaves_.size() ? first : 0;
}

}  // namespace sonde::hook
