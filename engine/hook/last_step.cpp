#include "engine/hook/last_step.h"

#include <algorithm>

namespace sonde::hook {

namespace {
LastStep::Met g_met = nullptr;
}  // namespace

void LastStep::on_met(Met callback) noexcept { g_met = callback; }

LastStep::Place& LastStep::find(const void* optimizer) noexcept {
  auto place = std::find_if(places_.begin(), places_.end(),
                            [&](const Place& each) { return each.optimizer == optimizer; });
  if (place == places_.end()) {
    if (places_.size() == kMostOptimizers) places_.erase(places_.begin());
    places_.push_back({.optimizer = optimizer});
    place = places_.end() - 1;
    if (g_met != nullptr) g_met(optimizer);
  }
  latest_ = &*place;
  return *place;
}

void LastStep::end_epoch() noexcept {
  latest_ = nullptr;
  std::erase_if(places_, [](const Place& place) { return place.steps == 0; });
  for (Place& place : places_) {
    place.expected = place.steps;
    place.steps = 0;
    place.in_final = 0;
  }
}

std::uint64_t LastStep::steps(const void* optimizer) const noexcept {
  for (const Place& place : places_) {
    if (place.optimizer == optimizer) return place.steps;
  }
  return 0;
}

std::vector<std::pair<const void*, std::uint64_t>> LastStep::counts() const {
  std::vector<std::pair<const void*, std::uint64_t>> found;
  for (const Place& place : places_) {
    if (place.steps != 0) found.emplace_back(place.optimizer, place.steps);
  }
  return found;
}

}  // namespace sonde::hook
