// One pass over a loader, and what is known of it.
#pragma once

#include <cstdint>

#include "engine/hook/moment.h"

namespace sonde::hook {

enum class Fetched : std::uint8_t { kItem, kEnd, kError };
// What speaks for a fetch being an evaluation's, before anything is done with its batch.
enum class Hint : std::uint8_t { kNone, kModelInEval, kGradientsOff };

class Training;

// One pass over a loader: what stands behind one iterator. Ends with it.
class alignas(64) Pass {
 public:
  // `source`: stands for the loader, only compared. `now`: when its iterator was asked for.
  Pass(Here here, const void* source, std::uint64_t now) noexcept;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // True while nothing is known of it: the next fetch wants to hear whether it looks like
  // validation.
  bool fresh() const noexcept { return role_ == Role::kNone; }
  // It makes an epoch that is trained in: whatever a fetch looks like.
  bool trains() const noexcept { return trains_ && role_ == Role::kOwner; }
  // Its last fetch was made with gradients off.
  bool fetched_off() const noexcept { return off_; }
  // Several batches of it were fetched, and none was used.
  bool has_unused() const noexcept { return fetches_ > 1 && !ever_used_; }
  // How many batches the loader says it has; 0: it does not say.
  void set_length(std::uint64_t batches) noexcept { length_ = batches; }

  // Who fetches further ahead than this does something else.
  static constexpr std::uint32_t kFurthestAhead = 16;

  // No more is fetched, and what is left makes one step.
  bool on_last() const noexcept { return left_ <= per_step_; }

 private:
  void note_step() noexcept;
  std::uint32_t unfinished() noexcept;
  friend class Training;
  enum class Role : std::uint8_t {
    kNone,    // nothing fetched yet
    kOwner,   // has a scope of its own: epoch or validation
    kMember,  // feeds somebody else's epoch
  };

  // What every fetch looks at comes first, in as few lines of the cache as it can.
  Training* training_ = nullptr;
  std::uint64_t fetches_ = 0, length_ = 0;
  record::ScopeHandle load_;  // the fetch under way
  Role role_ = Role::kNone;
  bool nested_ = false;      // inside an epoch
  bool trains_ = false;      // certain: a backward or an optimizer step used a batch of it
  bool evaluates_ = false;   // as far as is known: no steps are wanted
  bool sure_ = false;        // a model of the program's ran on it with gradients off
  bool unproven_ = false;    // nothing was trained since its last fetch
  bool used_ = false;        // a model has run since its last fetch,
  bool ever_used_ = false;   // or since its first
  bool no_hint_ = false;     // it fetches with gradients off, and trains all the same
  bool failed_ = false;      // an exception passed through; if nothing is fetched again, it is over
  bool fresh_step_ = false;  // the fetch under way opened the step
  bool off_ = false;         // its last fetch was made with gradients off
  bool waits_ = false;       // a pass over the same loader has batches left to train with
  bool supersedes_ = false;  // a pass over the same loader is under way, which may be over
  bool again_ = false;       // it had ended once: somebody else's pass was taken for its successor
  bool orphan_ = false;      // a scope of the program's has closed its own
  bool drained_ = false;     // there is no more to fetch, but batches are left to train with: left_
  bool parted_ = false;      // what it fed is over, and it has not fetched since
  bool had_member_ = false;  // a validation of another loader has ended in its own
  std::uint32_t idle_ = 0;   // fetches since anything was done with a batch
  std::uint32_t ahead_ = 0;  // how far fetching is ahead of training
  std::uint32_t group_ = 0;  // fetched before anything was done with the first
  record::ScopeHandle scope_;
  std::uint64_t load_at_ = 0;     // sequence of the last fetch
  std::uint64_t steps_ = 0;       // that its fetches have opened,
  std::uint64_t step_fetch_ = 0;  // the last of them with this one

  std::uint32_t left_ = 0;      // batches to train with, of a drained one,
  std::uint32_t per_step_ = 1;  // and so many make a step
  const void* source_;
  std::uint64_t made_ns_;
  std::uint64_t made_at_;            // sequence that was next on its thread,
  std::uint32_t made_depth_;         // and how much was open
  std::uint64_t first_at_ = 0;       // likewise, when the first fetch began
  std::uint64_t outer_fetches_ = 0;  // of the pass it feeds, when it began,
  std::uint64_t outer_scope_ = 0;    // and the sequence of that one's scope
  std::uint64_t first_check_ = 0;    // the fetch with which its scope begins
};

}  // namespace sonde::hook
