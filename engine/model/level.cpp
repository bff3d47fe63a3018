#include "engine/model/level.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/level_names.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace {

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 2> kEpochs = {base::kEpoch, base::kValidation};
constexpr std::array<std::string_view, 2> kSteps = {base::kStep, base::kBatch};
constexpr std::array<std::string_view, 4> kParts = {base::kDataLoad, base::kForward,
                                                    base::kBackward, base::kOptimizerStep};

}  // namespace

std::optional<Level> level_called(std::string_view name) noexcept {
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return {};
  return static_cast<Level>(found - kLevelNames.begin());
}

bool level_is_fixed(std::string_view name) noexcept {
  return is_one_of(name, kEpochs) || is_one_of(name, kSteps) || is_one_of(name, kParts);
}

Level level_of(std::string_view name, const Place& place) noexcept {
  if (is_one_of(name, kEpochs)) return Level::kEpoch;
  if (is_one_of(name, kSteps)) return Level::kStep;
  if (place.in_step || is_one_of(name, kParts)) return Level::kAll;
  return place.in_epoch ? Level::kStep : Level::kEpoch;
}

Surroundings::Kind Surroundings::kind_of(std::string_view name) noexcept {
  if (is_one_of(name, kEpochs)) return Kind::kEpoch;
  return is_one_of(name, kSteps) || is_one_of(name, kParts) ? Kind::kStep : Kind::kOther;
}

void Surroundings::know(const Span& span) {
  scopes_.try_emplace(span.id, Scope{span.parent_id, kind_of(span.name)});
}

void Surroundings::follow(Place& place) const noexcept {
  constexpr int kDeepest = 1024;  // a damaged file may go round in circles
  for (int i = 0; i < kDeepest && !place.settled(); ++i) {
    const auto found = scopes_.find(place.next);
    if (found == scopes_.end()) return;
    place.in_epoch = place.in_epoch || found->second.kind == Kind::kEpoch;
    place.in_step = found->second.kind == Kind::kStep;
    place.next = found->second.parent;
  }
}

LineFilter line_filter(std::string_view level, std::string name) {
  const Level usual = name.empty() ? Level::kStep : Level::kAll;
  return {level_called(level).value_or(usual), std::move(name)};
}

bool LineFilter::shows(std::string_view span_name, const Place& place) const {
  if (level_of(span_name, place) > level) return false;
  return name.empty() || ::fnmatch(name.c_str(), std::string(span_name).c_str(), 0) == 0;
}

}  // namespace sonde::model
