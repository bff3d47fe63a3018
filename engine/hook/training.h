// What hooks see of a training loop, turned into the tree that people expect:
//
//   epoch[n]
//     step[n]
//       data_load   forward   backward   optimizer_step
//   validation
//
// Nobody announces an epoch or a step: they follow from what is fetched, run and optimized. What a
// pass over a loader or a stretch of forwards turns out to be is known only later. So scopes are
// opened under their likely names and relabelled when something speaks against it, and the newest
// spans can be moved until it is certain where they belong (leaves.h). docs/hooks.md has the rules.
//
// One Training belongs to one stack (of a thread or a task); its calls come from whoever runs that
// stack, one at a time (the host holds the GIL). Nothing here throws.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/cycle.h"
#include "engine/hook/last_step.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

// Does an optimizer own parameters of this module? Unknown: no optimizer is known yet.
enum class Owned : std::uint8_t { kUnknown, kYes, kNo };

// What is known of a call of a module when it begins.
struct Forward {
  bool gradients = true;  // are they on?
  bool training = true;   // the module's own flag, which is a hint
  Owned owned = Owned::kUnknown;
  std::uint32_t attrs = 0;       // interned; 0: the mode alone
  const void* module = nullptr;  // only compared
};

class alignas(64) Training {
 public:
  // The state that belongs to this stack.
  static Training& of(Here here) noexcept {
    Training* training = t_last;
    if (training != nullptr && training->stack_ == &here.stack && training->fits(here)) [[likely]]
      return *training;
    return find(here);
  }
  // Of whatever stack, by whomever it is run; nullptr: nothing was trained on it.
  static const Training* on(const record::Lane& stack) noexcept;
  const record::Lane* stack() const noexcept { return stack_; }
  // Called where a step ends that has GPU time, with the event that ends it.
  using StepEnd = void (*)(std::uint32_t event) noexcept;
  static void on_step_end(StepEnd callback) noexcept;
  // Called where an epoch of ours ends, in the middle of things: it may only take note. The index
  // is kNoIndex where there is none; the steps of the epoch are still counted.
  using EpochEnd = void (*)(const Training& training, std::uint64_t sequence,
                            std::int64_t index) noexcept;
  static void on_epoch_end(EpochEnd callback) noexcept;
  // A session begins: everything counts from zero.
  static constexpr std::uint32_t kStepsPerEpoch = 1000;  // without a loader
  static void begin_session(std::uint32_t steps_per_epoch = kStepsPerEpoch) noexcept;
  static void set_steps_per_epoch(std::uint32_t steps) noexcept;
  // Writes what waits to be understood, on every stack: the session is read or ends.
  static void settle_all(record::ThreadState& thread) noexcept;

  // Tells the ends of epochs that scopes of the program's have closed.
  static void report_closed() noexcept;
  // Before the session ends: what was not certain is as certain as it gets.
  static void conclude_all(record::ThreadState& thread) noexcept;
  // The hooks are taken away: what they have opened ends here, on every stack.
  static void finish_all(record::ThreadState& thread) noexcept;

  // -- a loader --
  SONDE_HOT void begin_fetch(Here here, Pass& pass, Hint hint) noexcept;
  // `gpu_work`: the fetch may have given the GPU something to do.
  SONDE_HOT void end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work = false,
                           std::string_view error = {}) noexcept;
  // What runs next has the batch that this pass has fetched last: those that it fetched before, and
  // nothing was done with, were skipped.
  void use_newest(Pass& pass) noexcept;
  // Is this step or epoch one that was opened here, and not the program's own?
  bool opened(std::uint64_t sequence) const noexcept;
  // Something that has no span has used the batches that were fetched.
  void use_unseen() noexcept { use_batches(); }
  // The iterator is exhausted or dropped. Also from another thread.
  static void end_pass(record::ThreadState* thread, std::unique_ptr<Pass> pass) noexcept;
  // While the caller fetches for a step of its own (ci.batches), no step is opened here.
  void claim_steps(bool claim) noexcept {
    claims_ += claim ? 1 : -1;
    plain_ = false;
  }

  // -- a model --
  SONDE_HOT record::ScopeHandle begin_forward(Here here, const Forward& forward) noexcept;
  // True: to be told by use_graph whether a backward goes through what this forward has returned.
  // `error`: JSON members that say which exception ended it.
  SONDE_HOT bool end_forward(Here here, const record::ScopeHandle& scope, bool failed,
                             std::string_view error = {}) noexcept;
  void use_graph(std::uint64_t sequence) noexcept { leaves_.use(sequence); }
  // Nobody will tell.
  void cannot_watch(std::uint64_t sequence) noexcept { leaves_.use(sequence); }
  SONDE_HOT record::ScopeHandle begin_backward(Here here) noexcept;
  SONDE_HOT void end_backward(Here here, const record::ScopeHandle& scope, bool failed,
                              std::string_view error = {}) noexcept;
  // The step of an optimizer is about to begin: the epoch that it is in is open from now on.
  void expect_optimizer(Here here, const void* optimizer) noexcept;
  // Optimizers (only compared) may run inside each other. The number is for end_optimizer, which
  // also hears of one that raised.
  SONDE_HOT std::uint64_t begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                          std::uint32_t attrs = 0) noexcept;
  SONDE_HOT void end_optimizer(Here here, std::uint64_t serial, bool completed,
                               std::string_view error = {}) noexcept;
  // A step that was meant to be taken and was not (mixed precision skips some) is over all the
  // same.
  void skip_step(Here here, const void* optimizer) noexcept;
  // In this session, on all stacks: steps that optimizers have taken, and that were skipped.
  static std::uint64_t steps_taken() noexcept { return g_taken; }
  static std::uint64_t steps_skipped() noexcept { return g_skipped; }
  // This one is no more: what comes at the same address is another one.
  static void forget_optimizer(const void* optimizer) noexcept;
  // Is there any optimizer?
  static void set_optimizers_known(bool known) noexcept { g_optimizers_known = known; }
  // A trainer says that its step is over.
  void step_over() noexcept { done_ = true; }

  // -- the last step of an epoch --
  // Are the gradients of the step that this optimizer (only compared) is about to take to be
  // measured? It may be the epoch's last. To be asked once, before begin_optimizer.
  SONDE_HOT bool measures_step(const void* optimizer) noexcept {
    if (optimizing()) return false;  // a part of another one's
    return last_step_.is_due(optimizer, in_final());
  }
  // The same for a step with a closure, asked right behind begin_optimizer: that may have ended an
  // epoch, to which the step does not belong.
  bool measures_begun(const void* optimizer) noexcept {
    return outer_optimizers_.empty() && last_step_.is_due(optimizer, in_final());
  }
  // How many each optimizer has taken in this epoch.
  const LastStep& steps() const noexcept { return last_step_; }
  LastStep& steps() noexcept { return last_step_; }
  // A turn of ci.batches begins. `last`: there is none after it.
  void begin_turn(std::int64_t index, bool last) noexcept {
    step_index_ = index;
    final_turn_ = last;
  }
  // An epoch that somebody else has opened is over.
  void end_epoch() noexcept;
  // Is this open scope a pass that is no epoch, as far as is known? On whatever stack.
  static bool is_doubtful(std::uint64_t sequence) noexcept;
  // Of the step that is open, or was the last; -1: there was none.
  std::int64_t step_index() const noexcept { return step_index_; }

  // -- a trainer that counts its own steps --
  // A step with this number begins, or the one a fetch has opened is it.
  void begin_step(Here here, std::int64_t index) noexcept;
  // It ends here, or, where a scope of the program's reaches across, as soon as that has ended.
  void end_step(Here here) noexcept;

  // -- a trainer that runs the whole training --
  // From its begin to its end no epoch is inferred, and no step outside of an epoch. It hands the
  // optimizer a closure that runs the model: that part stands beside the optimizer step, which
  // begins when the closure ends. Calls nest.
  void begin_trainer(Here here) noexcept;
  void end_trainer() noexcept;
  void end_closure(Here here) noexcept;

  // -- a trainer that announces everything --
  // From its begin to its end no epoch, step or validation is inferred. Calls nest.
  void begin_announced(Here here) noexcept;
  void end_announced() noexcept;

  enum class Level : std::uint8_t { kEpoch, kStep, kValidation };
  // Has somebody else than us a scope of that level open, or claimed it?
  bool owned(const record::Lane& stack, Level level) const noexcept;

 private:
  static Training& find(Here here) noexcept;
  bool fits(Here here) const noexcept {
    return tenancy_ == here.stack.tenancy && session_ == g_session &&
           generation_ == here.thread.generation;
  }
  void begin_tenancy(Here here) noexcept;
  void finish_everything(Here here) noexcept;
  void end_loop(Here here) noexcept;
  Moment last_known(Here here) const noexcept;
  bool of_this_session() const noexcept;
  // Is that level somebody else's?
  bool taken(const record::Lane& stack, Level level) const noexcept;
  struct Opening {
    std::uint32_t name = 0, attrs = 0;  // interned
    std::int64_t index = 0;
    std::uint8_t flags = 0;
  };
  SONDE_HOT static record::ScopeHandle open(Here here, const Opening& what, const Moment& now);
  SONDE_HOT static void close(record::ThreadState& thread, record::ScopeHandle& scope,
                              const Moment& now, std::string_view error = {});
  SONDE_COLD static void close_other(record::ThreadState& thread, const record::ScopeHandle& scope,
                                     const Moment& now, std::string_view error);
  static void end_on_gpu(const record::ScopeHandle& scope, const Moment& now) noexcept;
  static void close_around(record::ThreadState& thread, record::ScopeHandle& scope,
                           const Moment& now);
  static void renew(record::ThreadState& thread, record::ScopeHandle& scope, std::int64_t index,
                    const Moment& end, const Moment& start);
  bool cancel(record::ScopeHandle& scope);
  SONDE_COLD void drop_closed(bool by_program = true) noexcept;
  bool has_children(std::uint64_t sequence) const noexcept;
  void note_child(std::uint64_t parent) noexcept {
    if (parent != parents_[(parents_at_ - 1) % parents_.size()]) [[unlikely]]
      note_other_child(parent);
  }
  SONDE_HOT void note_other_child(std::uint64_t parent) noexcept;

  // -- passes --
  SONDE_COLD bool begin_pass(Here here, Pass& pass, Hint hint, const Moment& now);
  bool resume_pass(Here here, Pass& pass, Hint hint, const Moment& now);
  SONDE_COLD void end_passes_fetch(Here here, Pass& pass, const Moment& now);
  bool is_over(const Pass& outer, const Pass& next, bool next_evaluates) const;
  static bool begins_anew(const Pass& outer, const Pass& next) noexcept;
  bool trained_before(const void* source) const;
  void remember(const Pass& pass);
  void own(Here here, Pass& pass, bool evaluates, const Moment& now);
  void pause_checks(Here here, const Moment& now);
  SONDE_COLD void keep_what_waits(Here here, const Pass& next);
  SONDE_COLD void finish(record::ThreadState& thread, Pass& pass, const Moment& now);
  void note_fed(const Pass& pass) noexcept;
  void drop_last_fetch(record::ThreadState& thread, Pass& pass);
  static void leave(record::ThreadState& thread, Pass& pass) noexcept;
  void forget(Pass& pass);
  bool drop_peek(record::ThreadState& thread, Pass& pass);
  SONDE_COLD void turn_into_validation(Here here, Pass& pass);
  SONDE_COLD void turn_into_training(Here here, Pass& pass, const Moment& now);
  void take_along(const Pass& pass, bool trained) noexcept;
  SONDE_COLD void turn_part_into_validation(Here here, Pass& pass);
  SONDE_COLD void leave_check(Here here, Pass& pass, std::size_t first, const Moment& now);
  bool can_promote(const Pass& pass) const noexcept;
  SONDE_COLD void promote(Here here, Pass& pass);
  static bool is_look(const Pass& pass) noexcept;
  static bool is_epoch(const Pass& pass) noexcept;
  Pass* innermost() const { return owners_.empty() ? nullptr : owners_.back(); }
  // The pass whose validation is open and innermost of ours; nullptr: none is.
  Pass* checking() const;
  // The pass whose batches are trained with; nullptr: steps follow from the optimizers alone.
  Pass* leader() const;
  SONDE_COLD bool drain(Here here, const Moment& now);
  SONDE_COLD bool next_left(Here here, Pass& pass, const Moment& now);
  void use_left() noexcept;
  SONDE_COLD void follow(Here here, Pass& pass, const Moment& now);
  bool in_epoch(const record::Lane& stack) const noexcept;
  SONDE_APART void use_batches() noexcept;
  SONDE_APART void prove();
  SONDE_COLD void note_failure();

  // -- the end of an epoch --
  void report_epoch(std::uint64_t sequence, std::int64_t index) noexcept;
  bool in_final() const noexcept {
    return final_batch_ || final_turn_ || (fallback_epoch_ && next_step_ >= steps_per_epoch());
  }
  static std::int64_t steps_per_epoch() noexcept;

  // -- steps --
  bool step_open() const noexcept { return record::is_open(step_); }
  bool cancel_step();
  void take_step_back() noexcept;
  SONDE_HOT void close_step(record::ThreadState& thread, const Moment& now);
  SONDE_COLD void close_step_around(record::ThreadState& thread, const Moment& now);
  SONDE_COLD bool holds_program(const record::ScopeHandle& scope) const noexcept;
  SONDE_COLD static const record::OpenScope* next_inside(const record::ScopeHandle& scope) noexcept;
  SONDE_APART void rotate_step(Here here, const Moment& now);
  void open_step(Here here, std::int64_t index, const Moment& now);
  SONDE_HOT void open_next_step(Here here, std::int64_t index, const Moment& now);
  void end_own_step(record::ThreadState& thread, const Pass& pass, const Moment& now);
  SONDE_COLD void make_room_for_check(Here here, const Moment& now);
  SONDE_COLD void open_owed_step(Here here, const Moment& now);
  void number_step(Here here, std::int64_t index, const Moment& now);

  // -- without a loader --
  void place_without_loader(Here here, const Forward& forward, const Moment& now);
  SONDE_COLD void place_without_step(Here here, const Forward& forward, const Moment& now);
  bool next_iteration(Here here, const Moment& now);
  SONDE_COLD bool replace_step(Here here);
  bool ends_below_scope() const noexcept;
  bool fallback_full() const noexcept;
  bool step_is_empty(const record::ThreadState& thread) const noexcept;
  SONDE_COLD void begin_with_leaves(Here here, const Moment& now);
  SONDE_COLD void begin_behind_leaves(Here here, const Moment& now);
  bool began_epoch() const noexcept;
  SONDE_COLD void split_iteration(Here here, std::size_t first);
  void open_fallback(Here here, const Moment& now);
  void end_fallback(record::ThreadState& thread, const Moment& now);
  SONDE_COLD void open_look(Here here, const Moment& now);
  void close_look(Here here, const Moment& now);
  void forget_forward(const record::ScopeHandle& evaluation, const Moment& end) noexcept;
  SONDE_COLD void leave_look(Here here, const Moment& now, std::size_t first);
  SONDE_COLD bool ends_look(Here here, const Forward& forward, const Moment& now);
  SONDE_COLD void turn_into_look(Here here, bool fetched);
  SONDE_COLD void step_with_leaves(Here here, const Moment& start);
  SONDE_COLD void write_check(Here here, const Moment& start, const Moment& end);
  void settle_in_look() noexcept;
  SONDE_COLD void carve_check(Here here);

  // -- what runs --
  SONDE_APART void place_forward(Here here, const Forward& forward, const Moment& now);
  SONDE_APART void place_in_step(Here here, const Forward& forward, bool sure, const Moment& now);
  bool trains_again(const Pass& check, const Forward& forward) const noexcept;
  bool inside_scope(const record::Lane& stack) const noexcept;
  void place_with_leader(Here here, const Forward& forward, const Moment& now);
  SONDE_APART void place_backward(Here here, const Moment& now);
  SONDE_COLD void decide(Here here);
  std::size_t first_trained(bool sure = true) const noexcept;
  SONDE_APART void place_optimizer(Here here, const void* optimizer, bool closure,
                                   const Moment& now);
  // `next`: whose fetch ends what came before; nullptr: something else does.
  void conclude(Here here, const Moment& now, const Pass* next = nullptr);
  void settle() noexcept {
    peeked_ = nullptr;
    if (!leaves_.empty()) settle_leaves();
  }
  SONDE_HOT void settle_leaves() noexcept;
  static bool on_stack(const record::Lane& stack, std::uint64_t sequence) noexcept;
  bool untouched(const record::ThreadState& thread) const noexcept;
  static std::uint64_t scopes_opened(const record::ThreadState& thread) noexcept;
  bool movable(const record::ThreadState& thread) const noexcept;
  bool stands_free(const record::Lane& stack) const noexcept;
  SONDE_APART void begin_event(Here here) noexcept;
  SONDE_COLD void look_around(Here here) noexcept;
  SONDE_APART void begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now);
  void note_fetch(Pass& pass) noexcept;
  SONDE_APART bool begin_other_forward(Here here, const Forward& forward, const Moment& now);
  SONDE_APART bool begin_other_backward(Here here, const Moment& now);
  SONDE_HOT void end_event(Here here) noexcept;
  SONDE_HOT void end_leaf(Here here, record::ScopeHandle& scope, Leaf::Kind kind,
                          const Moment& now);
  SONDE_HOT SONDE_APART void keep_leaf(Here here, record::ScopeHandle& scope, Leaf::Kind kind,
                                       const Moment& now);
  // -- a step like the one before --
  SONDE_COLD bool begins_plain(const Pass& pass) const noexcept;
  bool goes_on(Here here) const noexcept;
  void place_plainly() noexcept;
  void prove_plainly() noexcept;
  SONDE_HOT void begin_plain_fetch(Here here, Pass& pass, const Moment& now);

  // Is something of the hooks under way that the next one would be a part of?
  bool nested() const noexcept { return optimizing() || record::is_open(running_); }

  struct Optimizer {
    record::ScopeHandle scope;
    std::uint64_t serial = 0;  // 0: none
    const void* id = nullptr;
    std::uint32_t attrs = 0;
    bool apart = false;  // its span waits for the end of its closure
  };
  bool optimizing() const noexcept { return optimizer_.serial != 0; }
  bool owned() const noexcept {
    return owner_ == Owner::kOptimizer || (owner_ == Owner::kAny && g_optimizers_known);
  }
  SONDE_HOT void open_optimizer(Here here, const Moment& now);
  SONDE_APART void put_optimizer_aside();
  void pause_optimizer(record::ThreadState& thread, const Moment& now);
  SONDE_HOT void drop_optimizer(record::ThreadState& thread, const Moment& now,
                                std::string_view error = {});
  void close_stale_optimizers(record::ThreadState& thread, const Moment& now);

  static std::uint32_t g_session;
  static std::uint64_t g_taken, g_skipped;
  static bool g_optimizers_known;
  static constinit thread_local Training* t_last __attribute__((tls_model("initial-exec")));

  // What every event looks at comes first, in as few lines of the cache as it can.
  record::Lane* stack_ = nullptr;
  std::uint64_t tenancy_ = 0;
  std::uint32_t session_ = 0, generation_ = 0;
  std::uint64_t expected_ = 0;         // sequence that is next if nobody else records,
  std::uint64_t expected_scopes_ = 0;  // if nobody opens a scope,
  std::uint32_t expected_depth_ = 0;   // and the depth of the stack if nobody closes one
  bool plain_ = false;                 // the step is like the one before (plain.h)
  bool done_ = false;                  // the step has had its optimizer step,
  bool earlier_done_ = false;          // and so had the one before
  bool fetched_ = false;               // nothing was done with what was fetched last
  bool proven_ = false;                // it has had a backward or an optimizer step
  bool pend_ = false;                  // the leaf under way is not certain of its place
  bool evaluates_ = false;             // it is a forward that looks like an evaluation's,
  bool sure_ = false;                  // with gradients off
  bool foreign_ = false;               // it is a forward of what nobody trains
  bool watch_ = false;                 // it is one of several, of which a backward may use one
  bool decide_ = false;                // the end of the backward under way tells which
  bool reopened_ = false;              // the step began anew, behind a validation
  bool touched_ = false;               // something else was recorded between the leaves
  bool final_batch_ = false;           // the pass that makes the epoch has fetched its last
  bool final_turn_ = false;            // likewise, of ci.batches
  bool trains_in_eval_ = false;        // models in evaluation mode are trained here
  bool knows_training_ = false;        // there was a backward or an optimizer step
  bool hinted_ = false;                // the last model that ran with gradients looked like that
  // Who has what the next backward trains: whoever has the last model that ran with gradients.
  // Where none did (parameters are used without one), an optimizer, if there is any.
  enum class Owner : std::uint8_t { kAny, kNobody, kOptimizer } owner_ = Owner::kAny;
  bool bare_ = false;  // nothing is trained with what models return: parameters are used without
  bool steps_by_optimizer_ = false;  // an optimizer has stepped

  std::int32_t announced_ = 0;
  record::ScopeHandle running_;   // the forward or backward under way
  Pass* step_pass_ = nullptr;     // whose fetch opened the step
  const void* module_ = nullptr;  // of the forward under way
  std::uint64_t last_ns_ = 0;     // when the last span but an optimizer's ended
  std::uint32_t fetch_depth_ = 0;
  std::uint32_t parents_at_ = 0;
  Optimizer optimizer_;        // the innermost
  std::uint64_t done_ns_ = 0;  // when the optimizer last stepped
  Leaves leaves_;
  // The newest scopes that spans of ours are certain to be in.
  std::array<std::uint64_t, 4> parents_ = {};
  Pass* last_ = nullptr;    // fetched last
  Pass* peeked_ = nullptr;  // has fetched once, and nothing has happened since
  record::ScopeHandle step_;
  Cycle cycle_;

  std::int32_t claims_ = 0, trainers_ = 0;
  // When the last forward with gradients began, but for those of plain steps.
  std::uint64_t graded_ns_ = 0;
  Pass* left_of_ = nullptr;       // one of whose last batches it began with
  Pass* owed_ = nullptr;          // whose batch waits for its step while there is a validation
  std::uint64_t step_epoch_ = 0;  // sequence of the epoch-level scope its index counts in
  std::int64_t next_step_ = 0, next_epoch_ = 0;
  std::int64_t step_index_ = -1, earlier_index_ = -1;

  std::uint32_t since_fetch_ = 0;  // iterations of the optimizers since the last fetch
  std::vector<Optimizer> outer_optimizers_;
  LastStep last_step_;

  std::vector<Pass*> owners_;                // passes with a scope, the outermost first
  std::vector<Pass*> known_;                 // all that have begun
  std::vector<std::unique_ptr<Pass>> kept_;  // drained ones whose iterators are gone
  record::ScopeHandle fallback_epoch_;       // without a loader
  std::uint64_t fallback_parent_ = 0;        // the scope that it is in,
  std::uint64_t full_parent_ = 0;            // and the last one that a full one was in
  // Where a scope of the program's around a single iteration has closed one: no other is opened
  // that deep.
  std::uint32_t short_depth_ = ~0u;
  record::ScopeHandle look_;      // a validation without a loader,
  std::uint32_t look_spans_ = 0;  // and how many spans are certain to be in it

  std::vector<const void*> trained_;  // loaders whose last pass trained, the newest at the end
  // A pass that has fed another's epoch and ended, while that other fetched nothing.
  const void* fed_by_ = nullptr;
  std::uint64_t fed_scope_ = 0, fed_fetches_ = 0;
};

}  // namespace sonde::hook
