// How far up in a training run a span stands, for those who show only the upper part of it live.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/model/trace.h"

namespace sonde::model {

// Each shows what the one before it does, and more.
enum class Level : std::uint8_t {
  kEpoch,  // epochs, validations, and what lies outside of them
  kStep,   // steps and batches, and what lies in an epoch beside them
  kAll,    // the parts of a step (data_load, forward, backward, optimizer_step) and whatever else
           // lies in one
};

// "epoch", "step", "all".
std::optional<Level> level_called(std::string_view name) noexcept;

// What is around a span, as far as that is known.
struct Place {
  base::Id next;  // the first scope around it that is not known yet; null: there is none
  bool in_epoch = false;
  bool in_step = false;

  bool settled() const noexcept { return in_step || !next; }
};

Level level_of(std::string_view name, const Place& place) noexcept;
// Whether the name alone decides.
bool level_is_fixed(std::string_view name) noexcept;

// Spans that others lie in. A span ends before the scopes around it do, so what is open counts too.
class Surroundings {
 public:
  void know(const Span& span);
  void forget() { scopes_.clear(); }
  // Goes on upwards from where the place has got to.
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

// What somebody wants to see.
struct LineFilter {
  Level level = Level::kStep;
  std::string name;  // a glob; empty: all names

  bool shows(std::string_view span_name, const Place& place) const;
};

}  // namespace sonde::model
