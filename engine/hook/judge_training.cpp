// Where a backward and an optimizer step belong, and what they show of the forwards before them.
#include <cstddef>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"
#include "engine/hook/verdict.h"

namespace sonde::hook {

std::size_t first_trained(const Leaves& leaves, bool bare, bool sure) noexcept {
  if (bare && leaves.none_used()) return leaves.first(Leaf::Kind::kBackward);
  return leaves.first_used(sure);
}

bool may_be_on_left(const Evidence& seen) noexcept {
  const PassEvidence* pass = seen.leader;
  return pass != nullptr && pass->fetch.drained && seen.done && seen.owed != pass;
}

bool can_promote(const Evidence& seen) noexcept {
  const PassEvidence* pass = seen.fetched;
  if (!seen.step_open || pass == nullptr || pass->role != PassEvidence::Role::kMember) return false;
  if (pass->trained || pass->evaluates) return false;
  const PassEvidence* outer = seen.outer;
  // Rule 5: a loop of `next(iter(loader))` is a loop without a loader; a pass that goes on is a
  // loop over one.
  if (outer == nullptr) return seen.step_in_counted;
  // Rule 4: after a pass whose last batches are left, this pass is the next epoch.
  return (outer->fetch.drained || (pass->relation.supersedes && outer->begins_anew(*pass))) &&
         !outer->evaluates && seen.step_in_outer;
}

namespace {

// The backward trains with the batch of the step. Where there are several forwards, autograd tells
// which of them it goes through.
Verdict in_step(const Evidence& seen) noexcept {
  if (seen.leaves.watched()) return {.event = {.pend = true, .decide = true}};
  return {.after = {.promote = true, .prove = true, .settle = true}};
}

// Where a backward belongs that shows no validation to be training. `leader`: null where no loader
// feeds the loop.
Verdict place_backward(const Evidence& seen, const PassEvidence* leader) noexcept {
  const bool forward = seen.leaves.has(Leaf::Kind::kForward);
  if (seen.step_open && !seen.done) return in_step(seen);
  if (seen.step_open && leader != nullptr) {
    // Rule 4: the backward may be on the next of the batches that are left. Otherwise rule 9.
    const bool pend = leader->fetch.drained && (seen.cycle.full() || forward);
    return {.event = {.pend = pend}, .after = {.prove = true, .settle = !pend}};
  }
  if (seen.step_open) {
    // Rule 5.
    if (!seen.cycle.complete() && (seen.cycle.known() || !seen.scope_begun))
      return {.event = {.pend = true}};
    return {.move = Move::kNextIteration, .after = {.prove = true, .settle = true}};
  }
  // Inside a scope of the program, the optimizer's step will show where the iteration belongs.
  if (seen.trains_owned && seen.inside_scope)
    return {.event = {.pend = leader == nullptr}, .after = {.prove = leader != nullptr}};
  if (!seen.taken.step) return {.move = Move::kBeginWithLeaves, .next = Question::kStep};
  return {.after = {.prove = true, .settle = true}};  // rule 8
}

// Rule 4: batches are left, and no forward came: is this backward on the next of them?
bool backward_is_on_left(const Evidence& seen) noexcept {
  return may_be_on_left(seen) && !seen.leaves.has(Leaf::Kind::kForward) && seen.cycle.full();
}

// Rule 4: is this step of an optimizer on the next of the batches that are left?
bool optimizer_is_on_left(const Evidence& seen, const void* optimizer) noexcept {
  return may_be_on_left(seen) && (seen.cycle.repeats(optimizer) || seen.cycle.full());
}

}  // namespace

Verdict judge_backward(const Evidence& seen, Question from) noexcept {
  switch (from) {
    case Question::kValidation:
      // Rule 2: a backward speaks against a validation, unless it went through something else.
      if (seen.check != nullptr || seen.look_open) {
        if (seen.leaves.watched()) return {.event = {.pend = true, .decide = true}};
        Verdict verdict{.move = Move::kLeaveLook, .about = {.first = kAllLeave}};
        if (seen.check != nullptr) verdict = judge_trained_check(seen);
        verdict.next = Question::kLoader;
        return verdict;
      }
      [[fallthrough]];
    case Question::kLoader:
      if (backward_is_on_left(seen))
        return {.move = Move::kNextLeft,
                .next = seen.leader->on_last() ? Question::kWithoutLoader : Question::kWithLoader};
      return place_backward(seen, seen.leader);
    case Question::kStep:
      return in_step(seen);
    case Question::kWithLoader:
      return place_backward(seen, seen.leader);
    case Question::kWithoutLoader:
      return place_backward(seen, nullptr);
    case Question::kNothing:
    case Question::kOwedStep:
    case Question::kStepAfterRoom:
    case Question::kEpochOfFetch:
      break;
  }
  return not_asked();
}

Verdict judge_trained_check(const Evidence& seen) noexcept {
  const PassEvidence& check = *seen.check;
  // Rule 2: what was fetched and run with gradients off stays a validation.
  const std::size_t first = seen.leaves.after_sure();
  if (check.fetch.off && (first > 0 || (check.batches.sure && seen.leaves.empty())))
    return {.move = Move::kLeaveCheck, .about = {.first = first}};
  return {.move = Move::kTrainCheck};
}

namespace {

// Can the leaves be moved?
bool is_free(const Evidence& seen) noexcept { return !seen.leaves.empty() && seen.untouched; }

// Rule 2, where the validation of a pass is open. `first`: the leaf at which training begins.
Verdict judge_check(const Evidence& seen, std::size_t first) noexcept {
  const PassEvidence& check = *seen.check;
  const Leaves& leaves = seen.leaves;
  const std::size_t load = leaves.find(check.load_at);
  // Everything before the leaves was a validation for certain, unless it ran on batches of another
  // loader while the batch of this pass waited.
  const bool certain = load == leaves.size() && check.batches.sure && !check.relation.had_member;
  const bool on_top = seen.last != &check && seen.last != nullptr &&
                      leaves.find(seen.last->load_at) < leaves.size();
  // Outside an epoch, where the batch was fetched with gradients on, a loop over the loader is more
  // likely than a look at one batch whose iterator lives on.
  const bool looked_at = first > 0 && load < first && !on_top && (check.nested || check.fetch.off);
  // The backward went through nothing of the validation.
  if (leaves.unused()) return {.move = Move::kLeaveCheck, .about = {.first = none_leave(leaves)}};
  if (is_free(seen) && (certain || looked_at))
    return {.move = Move::kLeaveCheck, .about = {.first = first}};
  return judge_trained_check(seen);
}

// Rules 2 and 3, in a step: forwards that the backward did not go through were an evaluation.
Verdict judge_step(const Evidence& seen, std::size_t first) noexcept {
  const Leaves& leaves = seen.leaves;
  const PassEvidence* pass = seen.fetched;
  if (pass != nullptr && pass->trained) pass = nullptr;
  const bool splits = is_free(seen) && first > 0 && first < leaves.size() && seen.step_innermost;
  const bool passed_over = splits && (pass == nullptr || leaves.find(pass->load_at) < first);
  const PassEvidence* last = seen.last;
  const bool on_top = last != pass && last != nullptr && !last->trained;
  if (passed_over && pass != nullptr && on_top && leaves.find(last->load_at) < first)
    return {.move = Move::kLeaveUsedCheck, .about = {.first = first}};
  if (passed_over) return {.move = Move::kSplitIteration, .about = {.first = first}};
  // The backward went through nothing that was done with the batch of the step.
  if (pass != nullptr && leaves.none_used() && leaves.find(pass->load_at) < leaves.size())
    return {.move = Move::kMarkEvaluation};
  return {};
}

Verdict judge_used(const Evidence& seen) noexcept {
  const Leaves& leaves = seen.leaves;
  // If a batch was fetched with gradients on, forwards with gradients off may be the first on it.
  const PassEvidence* fetched = seen.check != nullptr ? seen.check : seen.fetched;
  std::size_t first = first_trained(leaves, seen.bare, fetched == nullptr || fetched->fetch.off);
  if (fetched != nullptr && leaves.find(fetched->load_at) < first)
    first = first_trained(leaves, seen.bare);
  if (seen.check != nullptr) return judge_check(seen, first);
  if (seen.look_open) {
    // If the backward went through forwards of the look, the model in there is the one that trains.
    const bool through = leaves.watched() && !leaves.none_used();
    return {.move = through ? Move::kLeaveUsedLook : Move::kLeaveLook,
            .about = {.first = is_free(seen) ? first : none_leave(leaves)}};
  }
  if (seen.step_open && !seen.done) return judge_step(seen, first);
  return {};
}

}  // namespace

Verdict judge_graph(const Evidence& seen) noexcept {
  Verdict verdict = judge_used(seen);
  verdict.after.promote = verdict.after.prove = verdict.after.settle = true;
  return verdict;
}

namespace {

Verdict place_optimizer(const Evidence& seen, const OptimizerCall& call) noexcept {
  Verdict verdict{.after = {.prove = true, .settle = true}};
  // Rule 5: the leading optimizer steps again. A closure runs the model itself: after a complete
  // iteration it is the next one.
  const bool repeats =
      seen.cycle.repeats(call.optimizer) || (call.closure && seen.cycle.complete());
  if (seen.step_open && seen.done && seen.leader == nullptr && repeats) {
    verdict.move = seen.leaves.empty() ? Move::kNextIteration : Move::kBeginAmongLeaves;
  } else if (!seen.step_open && !seen.taken.step) {
    verdict.move = Move::kBeginWithLeaves;
  } else {
    verdict.after.promote = true;
  }
  return verdict;
}

}  // namespace

Verdict judge_optimizer(const Evidence& seen, const OptimizerCall& call, Question from) noexcept {
  switch (from) {
    case Question::kValidation:
      // Rule 2: what an optimizer steps on is not a validation.
      if (seen.check != nullptr) {
        Verdict verdict = judge_trained_check(seen);
        verdict.next = Question::kOwedStep;
        return verdict;
      }
      if (seen.look_open)
        return {.move = Move::kLeaveLook,
                .next = Question::kOwedStep,
                .about = {.first = seen.leaves.watched() ? none_leave(seen.leaves) : kAllLeave}};
      [[fallthrough]];
    case Question::kOwedStep:
      if (seen.owed != nullptr && !seen.step_open)
        return {.move = Move::kOpenOwedStep, .next = Question::kLoader};
      [[fallthrough]];
    case Question::kLoader:
      if (optimizer_is_on_left(seen, call.optimizer))
        return {.move = Move::kNextLeftWithLeaves, .next = Question::kStep};
      [[fallthrough]];
    case Question::kStep:
      return place_optimizer(seen, call);
    case Question::kNothing:
    case Question::kStepAfterRoom:
    case Question::kWithLoader:
    case Question::kWithoutLoader:
    case Question::kEpochOfFetch:
      break;
  }
  return not_asked();
}

namespace {

// Rules 2 and 3: nothing was trained in the step that is open.
Verdict judge_unproven(const Evidence& seen, const PassEvidence* next) noexcept {
  const Leaves& leaves = seen.leaves;
  const PassEvidence *step = seen.fetched, *last = seen.last;
  if (step == nullptr) {
    const bool look = !leaves.has(Leaf::Kind::kBackward);
    return {.move = look ? Move::kTurnIntoLook : Move::kStay};
  }
  const bool on_top = last != nullptr && last != step && !last->trained &&
                      leaves.find(last->load_at) < leaves.size();
  const bool other = on_top || (next != nullptr && next != step && last != nullptr);
  const PassEvidence& pass = other ? *last : *step;
  if (pass.fetch.failed) return {};
  if (!pass.trained) return {.move = other ? Move::kTurnLastIntoUnused : Move::kTurnIntoUnused};
  return {.move = &pass == step ? Move::kTurnRestIntoLook : Move::kStay};
}

}  // namespace

Verdict judge_stretch(const Evidence& seen, const PassEvidence* next) noexcept {
  const Leaves& leaves = seen.leaves;
  Verdict verdict{.after = {.settle = true}};
  const bool backward = leaves.has(Leaf::Kind::kBackward);
  if (seen.step_open && seen.done) {
    if (leaves.only_evaluation(seen.leader != nullptr)) {
      verdict.move = Move::kCarveLook;  // rules 2 and 3
    } else if (seen.leader == nullptr && (!seen.cycle.known() || seen.cycle.complete()) &&
               backward && leaves.after_stuck() == 0 && seen.none_opened) {
      verdict.move = Move::kBeginAmongLeaves;  // rule 5
      verdict.after.prove = true;
    }
  } else if (seen.step_open && !seen.proven && seen.step_innermost) {
    verdict.move = judge_unproven(seen, next).move;
  } else if (!seen.step_open && backward && leaves.after_stuck() == 0 &&
             leaves.parent() == seen.parent && !seen.taken.step) {
    verdict.move = Move::kBeginWithLeaves;  // rule 5: an accumulation without its optimizer step
    verdict.after.prove = true;
  }
  return verdict;
}

}  // namespace sonde::hook
