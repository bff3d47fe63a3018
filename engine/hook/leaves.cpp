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

std::size_t Leaves::first_used() const noexcept {
  const bool modes_differ = std::any_of(leaves_.begin(), leaves_.end(), [](const Leaf& leaf) {
    return leaf.kind == Leaf::Kind::kForward && !leaf.evaluates;
  });
  std::size_t first = 0;
  bool trains = false;  // from there on, as far as can be told
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    if (leaf.watched && leaf.used) return first;
    const bool evaluates = leaf.sure || (leaf.evaluates && modes_differ);
    if (leaf.watched || (evaluates && !trains)) {
      first = i + 1;
      trains = false;
    } else {
      trains = trains || leaf.kind != Leaf::Kind::kLoad;
    }
  }
  return first < leaves_.size() ? first : 0;
}

}  // namespace sonde::hook
