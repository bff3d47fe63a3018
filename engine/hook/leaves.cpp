#include "engine/hook/leaves.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sonde::hook {

std::size_t Leaves::first(Leaf::Kind kind) const noexcept {
  return index_of(
      std::find_if(begin(), end(), [&](const Leaf& leaf) { return leaf.kind == kind; }));
}

bool Leaves::only_evaluation(bool foreign) const noexcept {
  return std::all_of(begin(), end(),
                     [&](const Leaf& leaf) { return leaf.evaluates || (foreign && leaf.foreign); });
}

std::size_t Leaves::after_loads() const noexcept {
  std::size_t after = 0;
  while (after < size() && (*this)[after].kind == Leaf::Kind::kLoad) ++after;
  return after;
}

std::size_t Leaves::after_sure() const noexcept {
  std::size_t after = size();
  while (after > 0 && !(*this)[after - 1].sure) --after;
  return after;
}

bool Leaves::only_sure_after(std::size_t leaf) const noexcept {
  for (std::size_t i = leaf + 1; i < size(); ++i) {
    if (!(*this)[i].sure) return false;
  }
  return leaf + 1 < size();
}

std::size_t Leaves::after_stuck() const noexcept {
  std::size_t after = size();
  while (after > 0 && !(*this)[after - 1].stuck) --after;
  return after;
}

bool Leaves::has_hinted() const noexcept {
  return std::any_of(begin(), end(), [](const Leaf& leaf) { return leaf.evaluates && !leaf.sure; });
}

std::size_t Leaves::first_foreign() const noexcept {
  std::size_t first = size();
  while (first > 0 && (*this)[first - 1].foreign) --first;
  return first;
}

std::size_t Leaves::find(std::uint64_t sequence) const noexcept {
  // The leaf is nearly always one of the newest.
  for (std::size_t i = size(); i-- > 0;) {
    if ((*this)[i].sequence == sequence) return i;
  }
  return size();
}

void Leaves::add(const Leaf& leaf) {
  if (full()) {
    front().record.settle();
    --counts_[std::size_t(front().kind)];
    if (++gone_ == kMost) {  // now and then, so that few are moved for each that is added
      leaves_.erase(leaves_.begin(), leaves_.begin() + kMost);
      gone_ = 0;
    }
  }
  leaves_.push_back(leaf);
  ++counts_[std::size_t(leaf.kind)];
}

Leaves Leaves::split(std::size_t from) {
  Leaves rest;
  const Iterator at = begin() + static_cast<std::ptrdiff_t>(std::min(from, size()));
  rest.leaves_.assign(at, end());
  for (const Leaf& leaf : rest.leaves_) {
    --counts_[std::size_t(leaf.kind)];
    ++rest.counts_[std::size_t(leaf.kind)];
  }
  leaves_.erase(at, end());
  return rest;
}

void Leaves::move(std::size_t from, std::uint64_t parent) noexcept {
  for (std::size_t i = from; i < size(); ++i) (*this)[i].record.move(parent);
}

void Leaves::use(std::uint64_t sequence) noexcept {
  if (const std::size_t leaf = find(sequence); leaf < size()) (*this)[leaf].used = true;
}

bool Leaves::watched() const noexcept {
  return std::any_of(begin(), end(), [](const Leaf& leaf) { return leaf.watched; });
}

bool Leaves::none_used() const noexcept {
  return watched() && std::none_of(begin(), end(), [](const Leaf& leaf) { return leaf.used; });
}

bool Leaves::was_passed_over(std::size_t leaf) const noexcept {
  const Leaf& one = (*this)[leaf];
  if (!one.watched || one.used) return false;
  return std::any_of(begin() + static_cast<std::ptrdiff_t>(leaf), end(), [&](const Leaf& later) {
    return later.kind == Leaf::Kind::kForward && !later.sure && (later.used || !later.watched) &&
           later.module == one.module;
  });
}

std::size_t Leaves::first_used(bool sure) const noexcept {
  std::size_t first = 0;
  bool trains = false;  // from leaf `first` on, as far as can be told
  for (std::size_t i = 0; i < size(); ++i) {
    const Leaf& leaf = (*this)[i];
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
