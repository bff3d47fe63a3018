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
  std::uint32_t start_event = 0;  // the GPU's event where the span began; 0: none
  const void* module = nullptr;   // of a forward; only compared
  Kind kind = Kind::kForward;
  bool evaluates = false;  // a forward that looks like a part of an evaluation
  bool sure = false;       // a forward that certainly is a part of one: gradients were off
  bool foreign = false;    // a forward whose module no optimizer trains
  bool watched = false;    // autograd will say whether a backward goes through it
  bool used = false;       // a backward went through it
  bool stuck = false;      // something else was recorded after it: it stays where it is
};

class Leaves {
 public:
  // No more leaves than this are kept: when there are more, the oldest stays where it is. (An
  // episode of reinforcement learning may have hundreds of forwards before its backward.)
  static constexpr std::size_t kMost = 512;

  bool empty() const noexcept { return size() == 0; }
  bool full() const noexcept { return size() >= kMost; }
  std::size_t size() const noexcept { return leaves_.size() - gone_; }
  Leaf& operator[](std::size_t i) noexcept { return leaves_[gone_ + i]; }
  const Leaf& operator[](std::size_t i) const noexcept { return leaves_[gone_ + i]; }
  const Leaf& front() const noexcept { return (*this)[0]; }
  // Sequence of the scope that the leaves lie below, going by the first of them; 0: there is none.
  std::uint64_t parent() const noexcept { return empty() ? 0 : front().record.parent(); }
  bool has(Leaf::Kind kind) const noexcept { return count(kind) > 0; }
  // Index of the first leaf of this kind; size(): there is none.
  std::size_t first(Leaf::Kind kind) const noexcept;
  // Are all leaves fetches?
  bool only_loads() const noexcept { return count(Leaf::Kind::kLoad) == size(); }
  // Are all leaves forwards that look like an evaluation? `foreign`: forwards whose module no
  // optimizer trains count as well.
  bool only_evaluation(bool foreign = false) const noexcept;
  // Index of the first leaf after the fetches at the front.
  std::size_t after_loads() const noexcept;
  // Index of the first leaf after the last forward that is sure; 0: no forward is.
  std::size_t after_sure() const noexcept;
  // Are there leaves after this one, and are all of them forwards that are sure?
  bool only_sure_after(std::size_t leaf) const noexcept;
  // Is one of the leaves a forward that had gradients and looks like a part of an evaluation?
  bool has_hinted() const noexcept;
  // Index of the first of the foreign forwards at the end; size(): there are none.
  std::size_t first_foreign() const noexcept;

  // Index of the span with this sequence; size(): it is not among the leaves.
  std::size_t find(std::uint64_t sequence) const noexcept;

  void add(const Leaf& leaf);
  // Something else was recorded after the leaves.
  void touch() noexcept {
    if (!empty()) leaves_.back().stuck = true;
  }
  // Index of the first leaf after the last stuck one. From there on the leaves can be moved.
  std::size_t after_stuck() const noexcept;
  // Keeps the leaves before `from`, and returns the others.
  Leaves split(std::size_t from);
  // The leaves from this one on belong below `parent`.
  void move(std::size_t from, std::uint64_t parent) noexcept;
  // The place of the leaves is certain. `settled` is told the parent of each.
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
  // Is any of the leaves watched?
  bool watched() const noexcept;
  // Leaves are watched, and no backward went through any of them.
  bool none_used() const noexcept;
  // The same, and there is no backward among the leaves.
  bool unused() const noexcept { return none_used() && !has(Leaf::Kind::kBackward); }
  // Index of the first leaf that trains; size(): nothing trains. The leaves in front of it are an
  // evaluation: forwards that no backward went through although it went through a later forward of
  // the same module, and, if `sure`, forwards with gradients off at the front. Autograd reports
  // nothing for the first forward; it is treated like the next one.
  std::size_t first_used(bool sure = true) const noexcept;

 private:
  using Iterator = std::vector<Leaf>::const_iterator;

  bool was_passed_over(std::size_t leaf) const noexcept;
  std::size_t count(Leaf::Kind kind) const noexcept { return counts_[std::size_t(kind)]; }
  std::size_t index_of(Iterator leaf) const noexcept { return std::size_t(leaf - begin()); }
  Iterator begin() const noexcept { return leaves_.begin() + std::ptrdiff_t(gone_); }
  Iterator end() const noexcept { return leaves_.end(); }

  std::vector<Leaf> leaves_;
  std::size_t gone_ = 0;                            // how many at the front are settled
  std::array<std::size_t, Leaf::kKinds> counts_{};  // of each kind
};

}  // namespace sonde::hook
