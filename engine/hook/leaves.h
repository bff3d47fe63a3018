// The newest spans of a loop while it is not certain where they belong: fetches, forwards and
// backwards, side by side under one scope. All of them are in the ring
// (engine/record/provisional.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/record/provisional.h"

namespace sonde::hook {

struct Leaf {
  enum class Kind : std::uint8_t { kLoad, kForward, kBackward };
  static constexpr std::size_t kKinds = 3;

  record::Provisional record = {};
  std::uint64_t sequence = 0;
  std::uint64_t start_ns = 0;
  std::uint32_t start_event = 0;  // on the GPU, 0: none
  const void* module = nullptr;   // of a forward; only compared
  Kind kind = Kind::kForward;
  bool evaluates = false;  // a forward that looks like a part of an evaluation
  bool sure = false;       // the same, because gradients were off
  bool foreign = false;    // a forward whose module no optimizer trains
  bool watched = false;    // autograd will say whether a backward goes through it
  bool used = false;       // a backward went through it
  bool stuck = false;      // something else was recorded behind it: it stays where it is
};

class Leaves {
 public:
  // More are not kept: the oldest stays where it is. (An episode of reinforcement learning may have
  // hundreds of forwards before its backward.)
  static constexpr std::size_t kMost = 512;

  bool empty() const noexcept { return size() == 0; }
  bool full() const noexcept { return size() >= kMost; }
  std::size_t size() const noexcept { return leaves_.size() - gone_; }
  Leaf& operator[](std::size_t i) noexcept { return leaves_[gone_ + i]; }
  const Leaf& operator[](std::size_t i) const noexcept { return leaves_[gone_ + i]; }
  const Leaf& front() const noexcept { return (*this)[0]; }
  // What they all lie below, as far as they are told apart; 0: nothing.
  std::uint64_t parent() const noexcept { return empty() ? 0 : front().record.parent(); }
  bool has(Leaf::Kind kind) const noexcept { return count(kind) > 0; }
  // size(): there is none.
  std::size_t first(Leaf::Kind kind) const noexcept;
  // Only fetches.
  bool only_loads() const noexcept { return count(Leaf::Kind::kLoad) == size(); }
  // Only forwards that look like an evaluation. `foreign`: or whose module no optimizer trains.
  bool only_evaluation(bool foreign = false) const noexcept;
  // Behind the fetches at the front.
  std::size_t behind_loads() const noexcept;
  // Behind the last forward with gradients off; 0: there is none.
  std::size_t behind_sure() const noexcept;
  // Are there only forwards with gradients off behind this one?
  bool only_sure_behind(std::size_t leaf) const noexcept;
  // Is one of them a forward that had gradients and looks like an evaluation's?
  bool has_hinted() const noexcept;
  // The first of those at the end that are forwards of what no optimizer trains.
  std::size_t first_foreign() const noexcept;

  // Of the span with this sequence; size(): it is not there.
  std::size_t find(std::uint64_t sequence) const noexcept;

  void add(const Leaf& leaf);
  // Something else was recorded behind them.
  void touch() noexcept {
    if (!empty()) leaves_.back().stuck = true;
  }
  // The first that nothing else was recorded behind; size(): none.
  std::size_t behind_stuck() const noexcept;
  // Keeps those before `from`, and returns the others.
  Leaves split(std::size_t from);
  // From this one on they belong below `parent`.
  void move(std::size_t from, std::uint64_t parent) noexcept;
  // Their place is certain. `settled` hears of their parents.
  template <typename Settled>
  void settle(Settled settled) noexcept {
    for (std::size_t i = 0; i < size(); ++i) {
      settled((*this)[i].record.parent());
      (*this)[i].record.settle();
    }
    leaves_.clear();
    gone_ = 0;
    counts_ = {};
  }

  // A backward went through the span with this sequence.
  void use(std::uint64_t sequence) noexcept;
  bool watched() const noexcept;
  // Autograd would have said so, and no backward went through any.
  bool none_used() const noexcept;
  // Nor has there been one.
  bool unused() const noexcept { return none_used() && !has(Leaf::Kind::kBackward); }
  // Where training begins: behind the last forward that no backward went through, but through a
  // later one of the same module, and behind what looks like evaluation in front. Of the first
  // forward it is not said whether it was used: it is like the one after it. size(): nothing
  // trains. `sure`: those with gradients off at the front are an evaluation's.
  std::size_t first_used(bool sure = true) const noexcept;

 private:
  using Iterator = std::vector<Leaf>::const_iterator;

  bool was_passed_over(std::size_t leaf) const noexcept;
  std::size_t count(Leaf::Kind kind) const noexcept { return counts_[std::size_t(kind)]; }
  std::size_t index_of(Iterator leaf) const noexcept { return std::size_t(leaf - begin()); }
  Iterator begin() const noexcept { return leaves_.begin() + std::ptrdiff_t(gone_); }
  Iterator end() const noexcept { return leaves_.end(); }

  std::vector<Leaf> leaves_;
  std::size_t gone_ = 0;                            // so many at the front are settled
  std::array<std::size_t, Leaf::kKinds> counts_{};  // of each kind
};

}  // namespace sonde::hook
