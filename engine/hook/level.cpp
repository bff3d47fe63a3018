#include "engine/hook/level.h"

#include <cstdint>

#include "engine/base/level_names.h"
#include "engine/record/names.h"
#include "engine/record/stack.h"

namespace sonde::hook {

std::uint64_t open_level(const record::Lane& stack, std::uint32_t name) noexcept {
  static const std::uint32_t kStepName = record::intern(base::kStep);
  static const std::uint32_t kBatchName = record::intern(base::kBatch);
  const std::uint32_t other = name == kStepName ? kBatchName : name;
  const record::ScopeView scope = record::innermost_where(
      stack, [&](record::ScopeView open) { return open.name() == name || open.name() == other; });
  return scope ? scope.sequence() : 0;
}

bool epochs_announced(const record::Lane& stack) noexcept {
  return bool(record::innermost_where(
      stack, [](record::ScopeView scope) { return (scope.flags() & record::kOwnsEpochs) != 0; }));
}

}  // namespace sonde::hook
