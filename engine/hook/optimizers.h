// The steps of optimizers that are under way. One may run inside another.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/moment.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

class Optimizers {
 public:
  bool any() const noexcept { return current_.serial != 0; }
  bool nest() const noexcept { return !outer_.empty(); }
  // Number of the innermost step; 0: none is under way.
  std::uint64_t serial() const noexcept { return current_.serial; }
  const void* id() const noexcept { return current_.id; }
  // Does the span of the innermost optimizer begin only after its closure?
  bool is_apart() const noexcept { return current_.apart; }
  bool has(std::uint64_t serial) const noexcept;
  bool has_scope(std::uint64_t sequence) const noexcept;

  // `apart`: the span begins only after the closure.
  SONDE_HOT std::uint64_t begin(Here here, const void* id, std::uint32_t attrs, bool apart,
                                const Moment& now);
  // The innermost step is over.
  SONDE_HOT void end(record::ThreadState& thread, const Moment& now, std::string_view error = {});
  // The closure of the innermost optimizer runs. If the optimizer is apart, its span is closed
  // until the closure ends (resume).
  void pause(record::ThreadState& thread, const Moment& now) {
    if (current_.apart) close_span(thread, current_.scope, now);
  }
  void resume(Here here) {
    if (current_.apart && !record::is_open(current_.scope)) open(here, Moment());
  }

 private:
  struct Optimizer {
    record::ScopeHandle scope;
    std::uint64_t serial = 0;  // 0: none
    const void* id = nullptr;  // only compared
    std::uint32_t attrs = 0;
    bool apart = false;
  };
  SONDE_HOT void open(Here here, const Moment& now);
  SONDE_APART void put_aside();

  Optimizer current_;  // the innermost
  std::vector<Optimizer> outer_;
};

}  // namespace sonde::hook
