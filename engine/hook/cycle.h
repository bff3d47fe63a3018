// Which optimizer steps make up one iteration of a training loop. The leading optimizer is the one
// that stepped first; an iteration ends where the next one that it leads begins.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/placement.h"

namespace sonde::hook {

class Cycle {
 public:
  // Are the iterations alike, so that the last step of one can be recognised?
  bool known() const noexcept { return usual_ != 0 && !varies_; }
  // Has the iteration under way had all its steps?
  bool complete() const noexcept { return known() && taken_ >= usual_; }
  // Has the iteration under way had as many steps as each one before it, by whatever optimizers?
  bool full() const noexcept { return usual_ != 0 && !count_varies_ && taken_ >= usual_; }
  // Would a step of this optimizer (only compared) belong to the next iteration?
  bool repeats(const void* optimizer) const noexcept {
    return gone_ || (led_ && optimizer == leading_ && !continues(optimizer)) ||
           takes_over(optimizer);
  }
  std::uint32_t taken() const noexcept { return taken_; }

  // This optimizer has stepped.
  SONDE_HOT void note(const void* optimizer) noexcept;
  // A backward ended the iteration, without an optimizer: the program updates by hand.
  void note_by_hand() noexcept;
  // The next iteration begins.
  SONDE_HOT void begin() noexcept;
  // Takes the iteration back that has just begun.
  void take_back() noexcept {
    taken_ = earlier_;
    led_ = earlier_led_;
  }
  // This optimizer was freed: if it led, the next optimizer that steps begins another loop.
  void forget(const void* optimizer) noexcept {
    gone_ = gone_ || (has_leading_ && optimizer == leading_);
  }
  // Another loop begins.
  SONDE_APART void reset() noexcept;

 private:
  SONDE_APART void note_other(const void* optimizer) noexcept;

  // After this many steps in a row of another optimizer, that optimizer leads.
  static constexpr std::uint32_t kMostOthers = 16;
  // The order of this many steps of an iteration is kept.
  static constexpr std::uint32_t kMostSteps = 8;

  // Did this optimizer step at the same place in the iteration before?
  bool continues(const void* optimizer) const noexcept {
    return known() && taken_ < usual_ && taken_ < kMostSteps && steps_[taken_].before == optimizer;
  }

  // Has the leading optimizer stepped alone so far, and does this one now step for the second time
  // without it?
  bool takes_over(const void* optimizer) const noexcept {
    return usual_ != 0 && !shared_ && !led_ && others_ != 0 && optimizer == other_;
  }

  const void* leading_ = nullptr;
  const void* other_ = nullptr;
  std::uint32_t taken_ = 0, usual_ = 0, others_ = 0;
  std::uint32_t earlier_ = 0;  // steps taken in the iteration before
  bool earlier_led_ = false;
  bool has_leading_ = false, led_ = false, by_hand_ = false;
  bool shared_ = false;  // other optimizers have stepped in the iterations of the leading one
  bool gone_ = false;    // the leading optimizer was freed
  bool varies_ = false, count_varies_ = false;
  // The optimizers of this iteration's steps and of the last iteration's, in order and side by
  // side: usually there is one step, and then both are in one line of the cache.
  struct Turn {
    const void* newest = nullptr;
    const void* before = nullptr;
  };
  std::array<Turn, kMostSteps> steps_ = {};
};

}  // namespace sonde::hook
