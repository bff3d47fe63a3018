// The newest spans of a loop while it is not certain where they belong: fetches, forwards and
// backwards, side by side under one scope. All of them are in the ring
// (engine/record/provisional.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/record/provisional.h"

namespace sonde::hook {

struct Leaf {
  enum class Kind : std::uint8_t { kLoad, kForward, kBackward };

  record::SpanRecord* record = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t start_ns = 0;
  std::uint32_t start_event = 0;  // on the GPU, 0: none
  const void* module = nullptr;   // of a forward; only compared
  Kind kind = Kind::kForward;
  bool evaluates = false;  // a forward that looks like an evaluation's,
  bool sure = false;       // with gradients off
  bool foreign = false;    // a forward of what nobody trains
  bool watched = false;    // somebody will say whether a backward goes through it,
  bool used = false;       // and one did
  bool stuck = false;      // something else was recorded behind it: it stays where it is
};

class Leaves {
 public:
  // More are not kept: the oldest stays where it is. (An episode of reinforcement learning may have
  // hundreds of forwards before its backward.)
  static constexpr std::size_t kMost = 512;

  bool empty() const noexcept { return leaves_.empty(); }
  bool full() const noexcept { return leaves_.size() >= kMost; }
  std::size_t size() const noexcept { return leaves_.size(); }
  Leaf& operator[](std::size_t i) noexcept { return leaves_[i]; }
  const Leaf& front() const noexcept { return leaves_.front(); }
  // What they all lie below, as far as they are told apart; 0: nothing.
  std::uint64_t parent() const noexcept {
    return leaves_.empty() ? 0 : leaves_.front().record->parent;
  }
  bool has(Leaf::Kind kind) const noexcept { return first(kind) < leaves_.size(); }
  // size(): there is none.
  std::size_t first(Leaf::Kind kind) const noexcept;
  // Nothing but fetches.
  bool only_loads() const noexcept;
  // Nothing but forwards that look like an evaluation's. `foreign`: or of what nobody trains.
  bool only_evaluation(bool foreign = false) const noexcept;
  // Behind the fetches at the front.
  std::size_t behind_loads() const noexcept;
  // Behind the last forward with gradients off; 0: there is none.
  std::size_t behind_sure() const noexcept;
  // Behind this one, is there nothing but forwards with gradients off?
  bool only_sure_behind(std::size_t leaf) const noexcept;
  // Is one of them a forward that had gradients and looks like an evaluation's?
  bool has_hinted() const noexcept;
  // The first of those at the end that are forwards of what nobody trains.
  std::size_t first_foreign() const noexcept;

  // Of the span with this sequence; size(): it is not there.
  std::size_t find(std::uint64_t sequence) const noexcept;

  void add(const Leaf& leaf);
  // Something else was recorded behind them.
  void touch() noexcept {
    if (!leaves_.empty()) leaves_.back().stuck = true;
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
    for (const Leaf& leaf : leaves_) {
      settled(leaf.record->parent);
      record::settle_provisional(*leaf.record);
    }
    leaves_.clear();
  }

  // A backward went through the span with this sequence.
  void use(std::uint64_t sequence) noexcept;
  bool watched() const noexcept;
  // Somebody would have said so, and no backward went through any.
  bool none_used() const noexcept;
  // Nor has there been one.
  bool unused() const noexcept { return none_used() && !has(Leaf::Kind::kBackward); }
  // Where training begins: behind the last forward that no backward went through, but through a
  // later one of the same module, and behind what looks like evaluation in front. Nobody says of
  // the first forward whether it was used: it is like the one after it. size(): nothing trains.
  // `sure`: those with gradients off at the front are an evaluation's.
  std::size_t first_used(bool sure = true) const noexcept;

 private:
  bool was_passed_over(std::size_t leaf) const noexcept;

  std::vector<Leaf> leaves_;
};

}  // namespace sonde::hook
