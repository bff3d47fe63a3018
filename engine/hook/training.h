// What hooks see of a training loop, turned into the tree that people expect:
//
//   epoch[n]
//     step[n]
//       data_load   forward   backward   optimizer_step
//   validation
//
// No program announces an epoch or a step: they follow from what is fetched, run and optimized.
// What a pass over a loader or a stretch of forwards turns out to be is known only later. So scopes
// are opened under their likely names and relabelled when something speaks against it, and the
// newest spans can be moved until it is certain where they belong (leaves.h). docs/hooks.md has the
// rules.
//
// Training is only the door: it is told of events. What was seen is in Seen. The pure functions in
// judge.h say what follows from that, and the moves (moves.h) carry it out. For a step like the one
// before it, nothing is asked (plain.h).
//
// One Training belongs to one stack (of a thread or a task). The thread that runs the stack makes
// all calls, one at a time (the host holds the GIL). Nothing here throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/evidence.h"
#include "engine/hook/last_step.h"
#include "engine/hook/level.h"
#include "engine/hook/listeners.h"
#include "engine/hook/moment.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

class alignas(64) Training {
 public:
  using Level = hook::Level;

  // The state that belongs to this stack.
  static Training& of(Here here) noexcept {
    Training* training = t_last;
    if (training != nullptr && training->seen_.stack == &here.stack && training->fits(here))
        [[likely]]
      return *training;
    return find(here);
  }
  // The state of any stack, also one that another thread runs; nullptr: nothing was trained on it.
  static const Training* on(const record::Lane& stack) noexcept;
  // Sets the functions to call when a step or an epoch of ours ends; nullptr: none.
  static void on_step_end(StepEnd callback) noexcept;
  static void on_epoch_end(EpochEnd callback) noexcept;
  // A session begins, and with it a generation: everything counts from zero.
  static constexpr std::uint32_t kStepsPerEpoch = 1000;  // without a loader
  static void begin_session(std::uint32_t steps_per_epoch = kStepsPerEpoch) noexcept;
  static void set_steps_per_epoch(std::uint32_t steps) noexcept;
  // The session is read or ends: on every stack, spans whose place is not certain yet stay where
  // they are.
  static void settle_all(record::ThreadState& thread) noexcept;

  // Reports the ends of epochs that were closed together with scopes of the program.
  static void report_closed() noexcept;
  // The session is about to end. No further event will tell where uncertain spans belong, so that
  // is decided now.
  static void conclude_all(record::ThreadState& thread) noexcept;
  // The hooks are taken away: what they have opened ends here, on every stack.
  static void finish_all(record::ThreadState& thread) noexcept;

  // -- a loader --
  SONDE_HOT void begin_fetch(Here here, Pass& pass, Hint hint) noexcept;
  // `gpu_work`: the fetch may have given the GPU something to do.
  SONDE_HOT void end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work = false,
                           std::string_view error = {}) noexcept;
  // What runs next is called with the newest batch of this pass. If earlier batches of the pass are
  // unused, they were skipped.
  void use_newest(Pass& pass) noexcept;
  // Was this pass last fetched on this stack?
  bool has(const Pass& pass) const noexcept { return pass.seen == &seen_; }
  // Something that has no span has used the batches that were fetched.
  void use_unseen() noexcept { seen_.passes.use_batches(); }
  // The iterator is exhausted or dropped. May be called from another thread.
  static void end_pass(record::ThreadState* thread, std::unique_ptr<Pass> pass) noexcept;
  // While the program's own loop over batches fetches for its step, no step is opened here.
  void claim_steps(bool claim) noexcept {
    seen_.claims.steps += claim ? 1 : -1;
    seen_.plain = false;
  }

  // -- a model --
  SONDE_HOT record::ScopeHandle begin_forward(Here here, const Forward& forward) noexcept;
  // True: use_graph is to be called when a backward goes through what this forward has returned.
  // `error`: JSON members that say which exception ended it.
  SONDE_HOT bool end_forward(Here here, const record::ScopeHandle& scope, bool failed,
                             std::string_view error = {}) noexcept;
  // A backward goes through what the forward with this sequence has returned. Also to be called
  // where autograd cannot be asked: the forward then counts as used.
  void use_graph(std::uint64_t sequence) noexcept { seen_.leaves.use(sequence); }
  SONDE_HOT record::ScopeHandle begin_backward(Here here) noexcept;
  SONDE_HOT void end_backward(Here here, const record::ScopeHandle& scope, bool failed,
                              std::string_view error = {}) noexcept;
  // The step of an optimizer is about to begin: the epoch that it is in is open from now on.
  void expect_optimizer(Here here, const void* optimizer) noexcept;
  // Optimizers (only compared) may run inside each other. The number is for end_optimizer, which is
  // also called when the step raises.
  SONDE_HOT std::uint64_t begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                          std::uint32_t attrs = 0) noexcept;
  SONDE_HOT void end_optimizer(Here here, std::uint64_t serial, bool completed,
                               std::string_view error = {}) noexcept;
  bool runs_optimizer(std::uint64_t serial) const noexcept { return seen_.optimizers.has(serial); }
  // An optimizer was meant to step and did not (mixed precision skips some steps). The step of the
  // loop is over all the same.
  void skip_step(Here here, const void* optimizer) noexcept;
  // How many steps optimizers have taken or skipped, in this session and on all stacks.
  static std::uint64_t steps_taken() noexcept { return g_taken; }
  static std::uint64_t steps_skipped() noexcept { return g_skipped; }
  // This optimizer was freed: what comes at the same address is another one.
  static void forget_optimizer(const void* optimizer) noexcept;
  // Is any optimizer known?
  static void set_optimizers_known(bool known) noexcept { Seen::g_optimizers_known = known; }
  // A trainer says that its step is over.
  void step_over() noexcept { seen_.step.note_done(); }

  // -- the last step of an epoch --
  // Should the gradients of this optimizer's next step be measured, because it may be the epoch's
  // last? The pointer is only compared. Ask once, before begin_optimizer.
  SONDE_HOT bool measures_step(const void* optimizer) noexcept {
    if (seen_.optimizers.any()) return false;  // the step is a part of another optimizer's
    return seen_.last_step.is_due(optimizer, seen_.in_final());
  }
  // The same for a step with a closure, to be asked right after begin_optimizer, which may have
  // ended an epoch that the step does not belong to.
  bool measures_begun(const void* optimizer) noexcept {
    return !seen_.optimizers.nest() && seen_.last_step.is_due(optimizer, seen_.in_final());
  }
  // How many steps each optimizer has taken in this epoch.
  const LastStep& steps() const noexcept { return seen_.last_step; }
  LastStep& steps() noexcept { return seen_.last_step; }
  // A turn of the program's own loop over batches begins. `last`: there is none after it.
  void begin_turn(std::int64_t index, bool last) noexcept {
    seen_.step.renumber(index);
    seen_.epochs.final_turn = last;
  }
  // An epoch that was not opened here is over.
  void end_epoch() noexcept;
  // Is this open scope, on any stack, that of a pass which is not an epoch, as far as is known?
  static bool is_doubtful(std::uint64_t sequence) noexcept;
  // Is this step or epoch one that was opened here, and not the program's own?
  bool opened(std::uint64_t sequence) const noexcept { return seen_.opened(sequence); }
  // Does a trainer, or the program, have a scope of that level open?
  bool owned(const record::Lane& stack, Level level) const noexcept {
    return seen_.owned(stack, level);
  }
  // The number of the step that is open, or of the last one; -1: there was none.
  std::int64_t step_index() const noexcept { return seen_.step.index(); }

  // -- a trainer that counts its own steps --
  // A step with this number begins. If a fetch has opened a step, that is the one.
  void begin_step(Here here, std::int64_t index) noexcept;
  // The step ends here. If a scope of the program is still open inside it, the step ends as soon
  // as that has ended.
  void end_step(Here here) noexcept;

  // -- a trainer that runs the whole training --
  // Between the first two calls no epoch is inferred, and no step outside an epoch. The trainer
  // hands the optimizer a closure that runs the model: what runs in there stands beside the
  // optimizer step, which begins when the closure ends. Calls nest.
  void begin_trainer(Here here) noexcept;
  void end_trainer() noexcept;
  void end_closure(Here here) noexcept;

  // -- a trainer that announces everything --
  // Between these two calls no epoch, step or validation is inferred. Calls nest.
  void begin_announced(Here here) noexcept;
  void end_announced() noexcept;

 private:
  static Training& find(Here here) noexcept;
  bool fits(Here here) const noexcept {
    return seen_.tenancy == record::tenancy_of(here.stack) &&
           seen_.generation == here.thread.generation;
  }
  void begin_tenancy(Here here) noexcept;
  // Does a trainer run on another stack, and has nothing trained on this one?
  SONDE_COLD bool only_fetches_for_another() const noexcept;
  SONDE_APART void begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now);

  Seen seen_;  // the only data; what plain steps look at comes first in it

  static std::uint64_t g_taken, g_skipped;
  static constinit thread_local Training* t_last __attribute__((tls_model("initial-exec")));
};

}  // namespace sonde::hook
