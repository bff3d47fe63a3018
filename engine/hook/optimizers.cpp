#include "engine/hook/optimizers.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/hook/moment.h"
#include "engine/hook/names.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"

namespace sonde::hook {

bool Optimizers::has(std::uint64_t serial) const noexcept {
  return current_.serial == serial ||
         std::ranges::any_of(outer_, [&](const Optimizer& one) { return one.serial == serial; });
}

bool Optimizers::has_scope(std::uint64_t sequence) const noexcept {
  return current_.scope.sequence == sequence ||
         std::ranges::any_of(outer_,
                             [&](const Optimizer& one) { return one.scope.sequence == sequence; });
}

std::uint64_t Optimizers::begin(Here here, const void* id, std::uint32_t attrs, bool apart,
                                const Moment& now) {
  static std::uint64_t serial = 0;
  if (any()) [[unlikely]]
    put_aside();
  current_ = {.scope = {}, .serial = ++serial, .id = id, .attrs = attrs, .apart = apart};
  if (!apart) open(here, now);
  return current_.serial;
}

// The next optimizer runs inside the current one.
void Optimizers::put_aside() { outer_.push_back(current_); }

void Optimizers::open(Here here, const Moment& now) {
  current_.scope = open_span(here, {.name = names().optimizer_step, .attrs = current_.attrs}, now);
}

void Optimizers::end(record::ThreadState& thread, const Moment& now, std::string_view error) {
  close_span(thread, current_.scope, now, error);
  current_ = {};
  if (outer_.empty()) return;
  current_ = outer_.back();
  outer_.pop_back();
}

}  // namespace sonde::hook
