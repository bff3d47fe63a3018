// What the end of a pass, of a loop or of a scope around them shows.
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

NoMore judge_no_more(const PassEvidence& pass, std::uint32_t left, bool scope_open) noexcept {
  const bool owner = pass.role == PassEvidence::Role::kOwner;
  // Rules 3 and 4.
  if (left > 0 && left <= PassEvidence::kFurthestAhead && owner && scope_open)
    return NoMore::kLeftovers;
  // The fetch that gave no batch began a new scope, because the epoch that the pass had fed was
  // over, or the pass itself had been ended before.
  if ((pass.fetch.count > 1 || pass.relation.again) && pass.begun.first_check == pass.fetch.count &&
      owner)
    return NoMore::kEmptyScope;
  return NoMore::kOver;
}

Ending judge_ending(const PassEvidence& pass) noexcept {
  if (pass.is_peek()) return Ending::kPeek;  // rule 6
  return pass.is_epoch() ? Ending::kEpoch : Ending::kOther;
}

bool fetched_for_nothing(const LastFetch& seen) noexcept {
  const PassEvidence& pass = seen.pass;
  const bool loops = pass.batches.ever_used && !pass.evaluates &&
                     pass.role == PassEvidence::Role::kOwner && seen.scope_open;
  const bool empty = seen.step_innermost && !seen.step_proven && !seen.step_certain;
  return loops && seen.opened_step && empty && seen.only_fetches && seen.untouched;
}

bool wraps_one_iteration(std::int64_t steps, bool held_full) noexcept {
  return steps <= 1 && !held_full;
}

bool is_loop_over(const LoopEnd& seen) noexcept {
  if (seen.claimed) return false;
  if (!seen.step_open) return true;
  const PassEvidence* pass = seen.fetched;
  const bool unused = pass != nullptr && pass->fetch.drained && !pass->batches.ever_used;
  return (seen.step_done || unused) && seen.step_stands;
}

bool ends_for_trainer(const PassEvidence* pass) noexcept {
  return pass != nullptr && (pass->fetch.failed || pass->fetch.drained);
}

bool has_nothing_left(const PassEvidence& outer, bool done) noexcept {
  return outer.fetch.drained && outer.on_last() && done;
}

}  // namespace sonde::hook
