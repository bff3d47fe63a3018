#include "engine/hook/level.h"

#include <cstdint>

#include "engine/record/names.h"
#include "engine/record/stack.h"

namespace sonde::hook {

std::uint64_t open_level(const record::Lane& stack, std::uint32_t name) noexcept {
  static const std::uint32_t kStep = record::intern("step"), kBatch = record::intern("batch");
  const std::uint32_t other = name == kStep ? kBatch : name;
  const record::ScopeView scope = record::innermost_where(
      stack, [&](record::ScopeView open) { return open.name() == name || open.name() == other; });
  return scope ? scope.sequence() : 0;
}

bool epochs_announced(const record::Lane& stack) noexcept {
  return bool(record::innermost_where(
      stack, [](record::ScopeView scope) { return (scope.flags() & record::kOwnsEpochs) != 0; }));
}

}  // namespace sonde::hook
