#include "engine/hook/cycle.h"

#include <algorithm>
#include <cstdint>

namespace sonde::hook {

void Cycle::note(const void* optimizer) noexcept {
  if (by_hand_ || gone_ || takes_over(optimizer)) reset();
  if (!has_leading_) {
    leading_ = optimizer;
    has_leading_ = true;
  }
  if (optimizer == leading_) [[likely]] {
    led_ = true;
    shared_ = shared_ || others_ != 0;
  } else {
    note_other(optimizer);
  }
  if (taken_ < kMostSteps) steps_[taken_].newest = optimizer;
  ++taken_;
}

// This optimizer is not the leading one, so far.
void Cycle::note_other(const void* optimizer) noexcept {
  shared_ = shared_ || led_;
  // The iteration was expected to begin with the leading optimizer.
  if (taken_ == 0 && usual_ != 0) varies_ = true;
  others_ = others_ != 0 && optimizer == other_ ? others_ + 1 : 1;
  other_ = optimizer;
  if (others_ < kMostOthers) return;
  reset();
  leading_ = optimizer;
  has_leading_ = led_ = true;
}

void Cycle::reset() noexcept { *this = Cycle(); }

void Cycle::note_by_hand() noexcept {
  reset();
  by_hand_ = led_ = true;
  taken_ = usual_ = 1;
}

void Cycle::begin() noexcept {
  earlier_ = taken_;
  earlier_led_ = led_;
  if (taken_ != 0) {
    if (usual_ != 0 && usual_ != taken_) varies_ = count_varies_ = true;
#pragma GCC unroll 1  // usually an iteration has one step
    for (std::uint32_t i = 0; i < std::min(taken_, kMostSteps); ++i)
      steps_[i].before = steps_[i].newest;
    usual_ = taken_;
  }
  taken_ = 0;
  if (led_) others_ = 0;
  led_ = false;
}

}  // namespace sonde::hook
