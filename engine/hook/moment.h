// A boundary between spans, and the stack it lies on.
#pragma once

#include <cstdint>

#include "engine/base/clock.h"
#include "engine/hook/leaves.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

// The stack that runs right now, and the thread that runs it.
struct Here {
  record::ThreadState& thread;
  record::Lane& stack;
};

// A boundary between spans: one reading of the clock, and of the GPU's where there is one.
class Moment {
 public:
  Moment() noexcept : ns(base::monotonic_ns()), event_(probe::gpu_mark()) {}
  // Now, with this earlier event: the GPU has been given no work since, so it still holds.
  explicit Moment(std::uint32_t event) noexcept
      : ns(base::monotonic_ns()), event_(probe::gpu_share(event)) {}
  // The beginning of this span.
  explicit Moment(const Leaf& leaf) noexcept
      : ns(leaf.start_ns), event_(probe::gpu_share(leaf.start_event)) {}
  // The beginning of this open scope.
  static Moment of(record::ScopeView scope) noexcept {
    return Moment(scope.start_ns(), probe::gpu_share(scope.start_event()));
  }
  // The same boundary at an earlier time: the GPU has had nothing to do since.
  Moment since(std::uint64_t ns) const noexcept { return Moment(ns, event()); }
  // A moment in the past, without an event of the GPU.
  static Moment at(std::uint64_t ns) noexcept { return Moment(ns, 0); }
  Moment(const Moment& other) noexcept : ns(other.ns), event_(probe::gpu_share(other.event_)) {}
  ~Moment() { probe::gpu_release(event_); }
  Moment& operator=(const Moment&) = delete;

  const std::uint64_t ns;
  std::uint32_t event_number() const noexcept { return event_; }
  // The event, for one more span; 0: there is none.
  std::uint32_t event() const noexcept { return probe::gpu_share(event_); }

 private:
  Moment(std::uint64_t ns, std::uint32_t event) noexcept : ns(ns), event_(event) {}

  std::uint32_t event_;
};

}  // namespace sonde::hook
