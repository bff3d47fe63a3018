// What hooks see of a training loop, turned into the tree that people expect:
//
//   epoch[n]
//     step[n]
//       data_load   forward   backward   optimizer_step
//   validation
//
// Nobody announces an epoch or a step: they follow from what is fetched, run and optimized. What a
// pass over a loader turns out to be is known only later, so its scope is opened under its likely
// name and relabelled when something speaks against it.
//
// One Training belongs to one stack (of a thread or a task); its calls come from whoever runs that
// stack, one at a time (the host holds the GIL). Nothing here throws.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/hook/last_step.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/scope.h"

// Runs on every step, after a model has gone through the caches: such code lies together.
#define SONDE_HOT __attribute__((hot))

namespace sonde::hook {

enum class Mode : std::uint8_t { kTrain, kEval };
enum class Fetched : std::uint8_t { kItem, kEnd, kError };
// What speaks for a pass being an evaluation, before anything is done with its batches.
enum class Hint : std::uint8_t { kNone, kModelInEval, kGradientsOff };

// The stack that runs right now, and the thread that runs it.
struct Here {
  record::ThreadState& thread;
  record::Lane& stack;
};

// A boundary between spans: one reading of the clock, and of the GPU's where there is one.
class Moment {
 public:
  Moment() noexcept : ns(base::monotonic_ns()), event_(probe::gpu_mark()) {}
  // At a point where the GPU got nothing to do since this event, which is then as good as another.
  explicit Moment(std::uint32_t event) noexcept
      : ns(base::monotonic_ns()), event_(probe::gpu_share(event)) {}
  ~Moment() { probe::gpu_release(event_); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  const std::uint64_t ns;
  std::uint32_t event_number() const noexcept { return event_; }
  // The event, for one more span; 0: there is none.
  std::uint32_t event() const noexcept { return probe::gpu_share(event_); }

 private:
  std::uint32_t event_;
};

class Training;

// One pass over a loader: what stands behind one iterator. Ends with it.
class Pass {
 public:
  // `source`: the loader, only compared. `now`: when its iterator was asked for.
  Pass(Here here, const void* source, std::uint64_t now) noexcept;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // True while nothing is known of it: the next fetch wants to hear whether it looks like
  // validation.
  bool fresh() const noexcept { return role_ == Role::kNone; }
  // How many batches the loader says it has; 0: it does not say.
  void set_length(std::uint64_t batches) noexcept { length_ = batches; }

 private:
  friend class Training;
  enum class Role : std::uint8_t {
    kNone,    // nothing fetched yet
    kOwner,   // has a scope of its own: epoch or validation
    kMember,  // feeds somebody else's epoch
  };

  Training* training_ = nullptr;
  std::uint64_t fetches_ = 0, length_ = 0;
  record::ScopeHandle load_;  // the fetch under way
  Role role_ = Role::kNone;
  bool nested_ = false;      // inside an epoch
  bool eval_ = false;        // as far as is known: no steps are wanted
  bool saw_train_ = false;   // a forward in training mode, a backward, an optimizer step
  bool saw_eval_ = false;    // a forward in evaluation mode
  bool failed_ = false;      // an exception passed through; if nothing is fetched again, it is over
  bool fresh_step_ = false;  // the fetch under way opened the step
  bool again_ = false;       // it had ended once: somebody else's pass was taken for its successor
  record::ScopeHandle scope_;
  const void* source_;
  std::uint64_t made_ns_;
  std::uint64_t made_at_;            // sequence that was next on its thread
  std::uint64_t first_at_ = 0;       // likewise, when the first fetch began
  std::uint64_t outer_fetches_ = 0;  // of the pass it feeds, when it began
};

class Training {
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
  static void begin_session(std::uint32_t steps_per_epoch) noexcept;
  // Writes what waits to be understood, on every stack: the session is read or ends.
  static void settle_all(record::ThreadState& thread) noexcept;

  // -- a loader --
  SONDE_HOT void begin_fetch(Here here, Pass& pass, Hint hint) noexcept;
  // `gpu_work`: the fetch may have given the GPU something to do.
  SONDE_HOT void end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work = false) noexcept;
  // The iterator is exhausted or dropped. Also from another thread.
  static void end_pass(record::ThreadState* thread, Pass& pass) noexcept;
  // While the caller fetches for a step of its own (ci.batches), no step is opened here.
  void claim_steps(bool claim) noexcept { claims_ += claim ? 1 : -1; }

  // -- a model --
  // True when the next forward decides what a pass is. It then matters whether another model is in
  // training mode: a frozen teacher's forward does not make a validation.
  bool undecided() const noexcept { return held_ != nullptr; }
  SONDE_HOT record::ScopeHandle begin_forward(Here here, Mode mode,
                                              bool another_trains = false) noexcept;
  SONDE_HOT record::ScopeHandle begin_backward(Here here) noexcept;
  SONDE_HOT void end(Here here, const record::ScopeHandle& scope, bool failed) noexcept;
  // Optimizers may run inside each other. The number is for end_optimizer, which also hears of one
  // that raised.
  SONDE_HOT std::uint64_t begin_optimizer(Here here, bool has_closure) noexcept;
  SONDE_HOT void end_optimizer(Here here, std::uint64_t serial, bool completed) noexcept;
  // A step that was meant to be taken and was not (mixed precision skips some) is over all the
  // same.
  void step_over() noexcept { step_done_ = true; }

  // -- the last step of an epoch --
  // Are the gradients of the step that this optimizer (only compared) is about to take to be
  // measured? It may be the epoch's last. To be asked once, before begin_optimizer.
  SONDE_HOT bool is_last_step(const void* optimizer) noexcept {
    if (optimizing()) return false;  // a part of another one's
    return last_step_.is_due(optimizer, in_final());
  }
  // The same for a step with a closure, asked right behind begin_optimizer: that may have ended an
  // epoch, to which the step does not belong.
  bool is_last_begun(const void* optimizer) noexcept {
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
  SONDE_HOT bool owned(const record::Lane& stack, Level level) const noexcept;

 private:
  static Training& find(Here here) noexcept;
  bool fits(Here here) const noexcept {
    return tenancy_ == here.stack.tenancy && session_ == g_session &&
           generation_ == here.thread.generation;
  }
  void begin_tenancy(Here here) noexcept;
  bool of_this_session() const noexcept;
  // Is that level somebody else's?
  SONDE_HOT bool taken(const record::Lane& stack, Level level) const noexcept;
  SONDE_HOT static record::ScopeHandle open(Here here, record::ScopeStart start, const Moment& now);
  SONDE_HOT static void close(record::ThreadState& thread, record::ScopeHandle& scope,
                              const Moment& now);
  static bool cancel(record::ScopeHandle& scope);

  void begin_pass(Here here, Pass& pass, Hint hint, const Moment& now);
  bool is_over(const Pass& outer, const Pass& next, bool next_evaluates) const;
  bool trained_before(const void* source) const;
  void own(Here here, Pass& pass, bool eval, const Moment& now);
  void finish(record::ThreadState& thread, Pass& pass, const Moment& now);
  void forget(Pass& pass);
  void label(Pass& pass);
  static bool is_look(const Pass& pass) noexcept;
  static bool is_epoch(const Pass& pass) noexcept;
  void report_epoch(std::uint64_t sequence, std::int64_t index) noexcept;
  bool ends_fallback() const noexcept;
  bool in_final() const noexcept {
    return final_batch_ || final_turn_ || (fallback_epoch_ && ends_fallback());
  }

  bool cancel_step();
  SONDE_HOT void close_step(record::ThreadState& thread, const Moment& now);
  SONDE_HOT void rotate_step(Here here, const Moment& now);
  SONDE_HOT void open_step(Here here, std::int64_t index, const Moment& now);

  SONDE_HOT void note(Mode mode);
  void note_failure();

  void hold(record::ThreadState& thread, Pass& pass, const Moment& now);
  void confirm(record::ThreadState& thread);
  bool untouched(const record::ThreadState& thread) const;
  bool drop_peek(record::ThreadState& thread);
  void turn_into_validation(Here here);
  void turn_into_training(Here here, const Moment& now);
  SONDE_HOT void settle_as_training(Here here, const Moment& now);

  struct Optimizer {
    record::ScopeHandle scope;
    std::uint64_t serial = 0;  // 0: none
    bool apart = false;        // its span waits for the end of its closure
  };
  bool optimizing() const noexcept { return optimizer_.serial != 0; }
  SONDE_HOT void open_optimizer(Here here, const Moment& now);
  void pause_optimizer(record::ThreadState& thread, const Moment& now);
  SONDE_HOT void drop_optimizer(record::ThreadState& thread, const Moment& now);
  void close_stale_optimizers(record::ThreadState& thread, const Moment& now);
  void end_own_step(record::ThreadState& thread, const Pass& pass, const Moment& now);
  void step_without_loader(Here here, const Moment& now);
  void end_fallback(record::ThreadState& thread, const Moment& now);
  Pass* innermost() const { return owners_.empty() ? nullptr : owners_.back(); }

  static std::uint32_t g_session;
  static constinit thread_local Training* t_last __attribute__((tls_model("initial-exec")));

  // What every event looks at comes first, in as few lines of the cache as it can.
  record::Lane* stack_ = nullptr;
  std::uint64_t tenancy_ = 0;
  std::uint32_t session_ = 0, generation_ = 0;
  Pass* held_ = nullptr;  // whose first data_load waits in held_load_
  Pass* last_ = nullptr;  // fetched last
  std::int32_t claims_ = 0, trainers_ = 0, announced_ = 0;
  std::uint32_t fetch_depth_ = 0;
  bool settled_ = false;      // all passes under way are known to train
  bool step_done_ = false;    // the optimizer has stepped: the next fetch ends the step
  bool loader_seen_ = false;  // on this stack
  bool final_batch_ = false;  // the pass that makes the epoch has fetched its last
  bool final_turn_ = false;   // likewise, of ci.batches

  record::ScopeHandle step_;
  const Pass* step_pass_ = nullptr;  // whose fetch opened it
  std::uint64_t step_epoch_ = 0;     // sequence of the epoch-level scope its index counts in
  std::int64_t next_step_ = 0, next_epoch_ = 0;
  std::int64_t step_index_ = -1, earlier_index_ = -1;

  Optimizer optimizer_;  // the innermost
  std::uint64_t optimizer_steps_ = 0, steps_in_epoch_ = 0;
  std::vector<Optimizer> outer_optimizers_;
  LastStep last_step_;

  std::vector<Pass*> owners_;           // passes with a scope, the outermost first
  std::vector<Pass*> known_;            // all that have begun
  record::ScopeHandle fallback_epoch_;  // without a loader

  // The first data_load of a pass waits here until it is clear what the pass is.
  record::ClosedSpan held_load_;
  std::uint64_t held_at_ = 0;  // sequence that was next when it was put there

  std::vector<const void*> trained_;  // loaders whose last pass trained, the newest at the end
  // A pass that has fed another's epoch and ended, while that other fetched nothing.
  const void* fed_by_ = nullptr;
  std::uint64_t fed_scope_ = 0, fed_fetches_ = 0;
};

}  // namespace sonde::hook
