#include "engine/hook/last_step.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/placement.h"

namespace sonde::hook {

namespace {
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

LastStep::Met g_met = nullptr;
// A number for every optimizer that has been met and not freed.
std::unordered_map<const void*, std::uint64_t> g_serials;
std::uint64_t g_last_serial = 0;
}  // namespace

SONDE_HOT_DATA std::uint64_t LastStep::g_deaths = 0;

void LastStep::on_met(Met callback) noexcept {
  g_met = callback;
  g_serials.clear();
  ++g_deaths;
}

void LastStep::gone(const void* optimizer) noexcept {
  g_serials.erase(optimizer);
  ++g_deaths;
}

LastStep::Place& LastStep::find(const void* optimizer) noexcept {
  std::swap(latest_, earlier_);
  if (is_it(latest_, optimizer)) [[likely]]
    return *latest_;
  Place& place = places_[optimizer];
  latest_ = &place;
  if (place.deaths != g_deaths || place.serial == 0) identify(place, optimizer);
  return place;
}

void LastStep::identify(Place& place, const void* optimizer) noexcept {
  const auto [known, met] = g_serials.try_emplace(optimizer, g_last_serial + 1);
  if (met) ++g_last_serial;
  if (place.serial != known->second) place = {.optimizer = optimizer, .serial = known->second};
  place.deaths = g_deaths;
  if (met && g_met != nullptr) g_met(optimizer);
}

// Called at few steps only: where one is expected to be the last, and where the clock is asked.
bool LastStep::look_at(Place& place, bool final) noexcept {
  place.likely_last =
      place.steps == place.expected || (final && place.in_final++ < kMostMeasuredOnLast);
  const bool due = place.likely_last || (place.steps >= place.sample && wants_sample(place));
  if (due) place.sample = 2 * place.steps;
  place.look = std::min(place.expected > place.steps ? place.expected : kNever, place.sample);
  return due;
}

bool LastStep::wants_sample(Place& place) noexcept {
  const bool first = place.sampled == 0;
  if (first && (!place.is_new || new_measured_ < kMostNew + g_serials.size())) return true;
  const std::uint64_t since = first ? any_ns_ : place.sampled_ns;
  const std::uint64_t pause = kPart * (first ? any_cost_ns_ : place.cost_ns * places_.size());
  const std::uint64_t passed = base::monotonic_ns() - since;
  if (passed >= pause) return true;
  // The clock is asked again, at the latest, when the number of steps since the last measurement
  // has doubled.
  const std::uint64_t steps = std::max<std::uint64_t>(1, place.steps - place.sampled);
  const std::uint64_t each = std::max<std::uint64_t>(1, passed / steps);
  place.sample = place.steps + std::clamp<std::uint64_t>((pause - passed) / each, 1, steps);
  return false;
}

bool LastStep::is_likely_last(const void* optimizer) const noexcept {
  const auto place = places_.find(optimizer);
  return place != places_.end() && place->second.likely_last;
}

void LastStep::measured(const void* optimizer, std::uint64_t begin_ns,
                        std::uint64_t end_ns) noexcept {
  const auto found = places_.find(optimizer);
  if (found == places_.end()) return;
  Place& place = found->second;
  if (place.sampled == 0 && place.is_new) ++new_measured_;
  place.sampled = place.steps;
  place.sampled_ns = any_ns_ = end_ns;
  place.cost_ns = any_cost_ns_ = end_ns - begin_ns;
  place.sample = place.steps + 1;
  place.look = std::min(place.look, place.sample);
}

void LastStep::measure_again() noexcept {
  for (auto& [optimizer, place] : places_) {
    place.sampled = 0;
    place.sample = place.look = place.steps + 1;
  }
}

void LastStep::end_epoch() noexcept {
  latest_ = earlier_ = nullptr;
  new_measured_ = 0;
  std::erase_if(places_, [](const auto& each) { return each.second.steps == 0; });
  for (auto& [optimizer, place] : places_) {
    place.expected = place.steps;
    place.steps = place.sampled = 0;
    place.look = place.sample = 1;
    place.in_final = 0;
    place.is_new = false;
  }
}

std::uint64_t LastStep::steps(const void* optimizer) const noexcept {
  const auto place = places_.find(optimizer);
  return place == places_.end() ? 0 : place->second.steps;
}

std::vector<std::pair<const void*, std::uint64_t>> LastStep::counts() const {
  std::vector<std::pair<const void*, std::uint64_t>> found;
  for (const auto& [optimizer, place] : places_) {
    if (place.steps != 0) found.emplace_back(optimizer, place.steps);
  }
  return found;
}

}  // namespace sonde::hook
