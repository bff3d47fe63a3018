// Which pass feeds the steps, how far its fetches are ahead of them, and which levels others have.
#include <algorithm>
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/level.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

std::uint32_t count_ahead(std::uint32_t fetches) noexcept {
  return fetches > 1 && fetches <= PassEvidence::kFurthestAhead ? fetches - 1 : 0;
}

Unfinished judge_unfinished(const PassEvidence& pass) noexcept {
  const PassEvidence::Batches& batches = pass.batches;
  if (!batches.ever_used) return {batches.idle - 1, batches.per_step};
  if (batches.ahead == 0) {
    // Where batches are taken in groups, the last ones are a smaller group, for one step.
    const bool rest = batches.group > 1 && batches.idle > 1 && batches.idle - 1 < batches.group;
    if (rest) return {batches.idle - 1, batches.idle - 1};
    return {0, batches.per_step};
  }
  if (batches.steps <= 1) return {batches.ahead, batches.per_step};
  const std::uint64_t before = batches.step_fetch - 1;
  const std::uint64_t used = before - std::min<std::uint64_t>(before, batches.ahead);
  return {static_cast<std::uint32_t>(pass.fetch.count - 1 - used), batches.per_step};
}

Levels add_claims(Levels found, const Claims& claims) noexcept {
  const bool announced = claims.everything(), trainer = claims.trainers > 0;
  found.epoch = found.epoch || announced || trainer;
  found.step =
      found.step || announced || claims.steps > 0 || (trainer && found.innermost_epoch == 0);
  found.validation = found.validation || announced;
  return found;
}

}  // namespace sonde::hook
