#include "engine/hook/level.h"

#include "engine/record/names.h"

namespace sonde::hook {

namespace {

template <typename Fits>
std::uint64_t innermost(const record::Lane& stack, Fits fits) noexcept {
  for (std::uint32_t slot = stack.depth.load(std::memory_order_relaxed); slot-- > 0;) {
    const record::OpenScope& scope = stack.stack[slot];
    const std::uint8_t flags = scope.flags.load(std::memory_order_relaxed);
    if ((flags & record::kSlotClosed) == 0 && fits(scope.name, flags)) return scope.sequence;
  }
  return 0;
}

}  // namespace

std::uint64_t open_level(const record::Lane& stack, std::uint32_t name) noexcept {
  static const std::uint32_t kStep = record::intern("step"), kBatch = record::intern("batch");
  const std::uint32_t other = name == kStep ? kBatch : name;
  return innermost(stack,
                   [&](std::uint32_t open, std::uint8_t) { return open == name || open == other; });
}

bool epochs_announced(const record::Lane& stack) noexcept {
  return innermost(stack, [](std::uint32_t, std::uint8_t flags) {
           return (flags & record::kOwnsEpochs) != 0;
         }) != 0;
}

}  // namespace sonde::hook
