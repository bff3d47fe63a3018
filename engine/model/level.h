// The level of a span in a training run. Live lines show only the upper levels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::model {

// Each level includes the one before it.
enum class Level : std::uint8_t {
  kEpoch,  // epochs, validations, and what lies outside of them
  kStep,   // steps and batches, and what lies in an epoch beside them
  kAll,    // the parts of a step (data_load, forward, backward, optimizer_step) and all else in it
};

// What options call the levels, in the order of Level.
inline constexpr std::array<std::string_view, 3> kLevelNames = {"epoch", "step", "all"};
std::optional<Level> level_called(std::string_view name) noexcept;

// The scopes around a span, as far as they are known.
struct Place {
  base::Id next;  // the first scope around it that is not known yet; null: all are known
  bool in_epoch = false;
  bool in_step = false;

  bool settled() const noexcept { return in_step || !next; }
};

Level level_of(std::string_view name, const Place& place) noexcept;
// Whether the name alone decides the level.
bool level_is_fixed(std::string_view name) noexcept;

// The spans that other spans lie in. Scopes end after the spans inside them, so scopes that are
// still open are among them.
class Surroundings {
 public:
  void know(const Span& span);
  void forget() { scopes_.clear(); }
  // Follows the scopes upwards from where the place stands.
  void follow(Place& place) const noexcept;

 private:
  enum class Kind : std::uint8_t { kOther, kEpoch, kStep };
  struct Scope {
    base::Id parent;
    Kind kind;
  };
  static Kind kind_of(std::string_view name) noexcept;

  std::unordered_map<base::Id, Scope, base::IdHash> scopes_;
};

// Which lines are to be shown.
struct LineFilter {
  Level level = Level::kStep;
  std::string name;  // a glob; empty: all names

  bool shows(std::string_view span_name, const Place& place) const;
};

// `level`: one of kLevelNames, or "" for the usual one: steps, or everything where a name is given.
LineFilter line_filter(std::string_view level, std::string name);

}  // namespace sonde::model
