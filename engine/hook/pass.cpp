#include "engine/hook/pass.h"

#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/record/stack.h"

namespace sonde::hook {

Pass::Pass(Here here, const void* source, std::uint64_t now) noexcept {
  this->source = source;
  begun.made_ns = now;
  begun.made_at = record::next_sequence(here.thread);
  begun.made_depth = record::depth_of(here.stack);
}

void Pass::begin(Seen& on, Hint hint, std::uint64_t sequence) noexcept {
  seen = &on;
  role = Role::kNone;
  trained = evaluates = nested = false;
  fetch.count = 0;
  fetch.failed = fetch.drained = false;
  fetch.off = hint == Hint::kGradientsOff;
  batches.used = batches.ever_used = batches.sure = false;
  batches.ahead = batches.idle = batches.group = 0;
  batches.per_step = 1;
  batches.steps = batches.step_fetch = 0;
  relation.orphan = relation.had_member = relation.supersedes = relation.waits = false;
  begun.first_at = sequence;
}

void Pass::note_step() noexcept {
  // Before the second step, batches were fetched ahead.
  if (const std::uint64_t others = batches.steps == 1 ? 1 + batches.ahead : batches.step_fetch;
      batches.steps > 0)
    batches.per_step = static_cast<std::uint32_t>(fetch.count > others ? fetch.count - others : 1);
  batches.step_fetch = fetch.count;
  ++batches.steps;
}

void Pass::note_use(std::uint32_t ahead) noexcept {
  batches.used = true;
  if (batches.ever_used) return;
  batches.ever_used = true;
  batches.group = batches.idle;
  batches.ahead = ahead;
}

void Pass::skip_to_newest() noexcept {
  // If the pass was used before, that was by an optimizer whose closure now runs the model.
  if (!batches.ever_used) batches.group = batches.idle;
  batches.ever_used = true;
  batches.ahead = 0;
}

}  // namespace sonde::hook
