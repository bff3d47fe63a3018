// What a fetch shows of the pass that makes it, and of other passes.
#include "engine/hook/judge.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

// Rule 2: a fetch with gradients off belongs to a validation; evaluation mode is a hint. A loader
// that was trained with is likely to be trained with again, whatever mode the model is in.
bool looks_like_validation(Hint hint, bool trains_in_eval, bool loader_trained) noexcept {
  return hint == Hint::kGradientsOff ||
         (hint == Hint::kModelInEval && !trains_in_eval && !loader_trained);
}

// Rule 6.
bool was_peek(const PassEvidence& peeked, const PassEvidence& next) noexcept {
  return &peeked != &next && peeked.begins_anew(next);
}

// A model has run on the last batch of the open validation, whose iterator lives: the validation is
// over, unless the new one is a loop inside it.
bool ends_check(const PassEvidence& check, Hint hint) noexcept {
  return check.batches.used && (hint != Hint::kGradientsOff || check.relation.had_member);
}

// Rule 3: no step contains a validation, even if its batch had been fetched before the validation,
// with gradients on.
bool waits_for_training(const PassEvidence& check, const PassEvidence& next) noexcept {
  return &check != &next && !check.batches.used && !check.fetch.off;
}

bool is_over(const Succession& seen) noexcept {
  const PassEvidence &outer = seen.outer, &next = seen.next;
  if (!seen.outer_open) return true;
  if (outer.fetch.drained) {
    if (outer.evaluates || seen.steps_taken) return true;
    // Nothing was done with any of several batches: the pass ran without a model.
    if (!outer.batches.ever_used && outer.fetch.left > 1 && !seen.next_evaluates) return true;
    // Rule 4: as long as nothing was done with the last batches of `outer`, `next` only fetches
    // ahead, for the next epoch.
    if (outer.begins_anew(next)) return outer.batches.used && (outer.on_last() || !seen.done);
    return outer.on_last() && seen.done && !seen.outer_owed;
  }
  if (seen.outer_fed && !next.fetch.off && !next.relation.again) return true;
  // `next` is a validation, or it fetches beside `outer` (rule 7).
  if (seen.next_evaluates || next.relation.again) return false;
  if (outer.fetch.failed) return true;
  if (outer.begins_anew(next) && !outer.trained) return true;
  // The loader of `next` has fed `outer` before, or `outer` was only looked into. In both cases
  // `outer` has not fetched since.
  return seen.outer_fed;
}

NewPass judge_new_pass(bool evaluates, bool validation_taken, bool in_epoch) noexcept {
  if (validation_taken) return NewPass::kFeedsValidation;         // rule 8
  if (evaluates) return NewPass::kOpensValidation;                // rules 2 and 3
  return in_epoch ? NewPass::kFeedsEpoch : NewPass::kOpensEpoch;  // rules 7 and 8
}

NextFetch judge_next_fetch(const PassEvidence& pass, Hint hint, bool validation_taken) noexcept {
  if (pass.is_check()) {
    return pass.role == PassEvidence::Role::kOwner ? NextFetch::kOfValidation
                                                   : NextFetch::kResumesValidation;
  }
  // Rule 2.
  if (hint == Hint::kGradientsOff && !pass.batches.no_hint && !validation_taken)
    return NextFetch::kOfLook;
  return NextFetch::kOfTraining;
}

bool stops_waiting(const PassEvidence& pass, bool done) noexcept {
  return pass.relation.waits && (done || !pass.batches.used);
}

bool can_follow(const PassEvidence* outer) noexcept {
  return outer == nullptr || outer->fetch.drained;
}

EpochOfFetch judge_epoch_of_fetch(const PassEvidence& pass, bool counted_innermost,
                                  bool in_epoch) noexcept {
  // The pass was taken for a peek at one batch; now it is a loop by itself.
  if (pass.trained && counted_innermost) return EpochOfFetch::kInsteadOfCounted;
  return pass.relation.orphan || in_epoch ? EpochOfFetch::kPresent : EpochOfFetch::kItsOwn;
}

bool is_plain(const PlainEvidence& seen) noexcept {
  const PassEvidence& pass = seen.pass;
  const bool loops = pass.trained && pass.role == PassEvidence::Role::kOwner &&
                     pass.batches.ever_used && pass.fetch.opened_step && !pass.fetch.drained &&
                     !pass.evaluates && !pass.relation.waits && !pass.relation.orphan;
  return loops && seen.alone && seen.opened_step && seen.unclaimed && seen.by_optimizer &&
         seen.nothing_else;
}

}  // namespace sonde::hook
