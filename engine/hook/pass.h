// One pass over a loader, and what was seen of it.
#pragma once

#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/record/scope.h"

namespace sonde::hook {

enum class Fetched : std::uint8_t { kItem, kEnd, kError };
// What speaks for a fetch being an evaluation's, before anything is done with its batch.
enum class Hint : std::uint8_t { kNone, kModelInEval, kGradientsOff };

class Training;

// What was seen of a pass: plain values, which judge.h reads and Training writes.
struct PassEvidence {
  enum class Role : std::uint8_t {
    kNone,    // nothing fetched yet
    kOwner,   // has a scope: epoch or validation
    kMember,  // feeds the epoch of another pass, of a trainer or of the program
  };
  // A program that fetches further ahead than this does something else.
  static constexpr std::uint32_t kFurthestAhead = 16;

  // No more is fetched, and what is left makes one step.
  bool on_last() const noexcept { return left <= per_step; }
  // The fetch that is counted now is the loader's last, by the length that it says it has.
  bool fetched_all() const noexcept { return fetches == length + ahead; }
  // Was one batch fetched, and nothing done with it (rule 6)?
  bool is_look() const noexcept { return fetches <= 1 && !trained && !ever_used; }
  // Is its scope an epoch?
  bool is_epoch() const noexcept { return !is_look() && !nested && (trained || !evaluates); }
  // Is `next` a pass over the same loader, once more? Iterators that were made before the first
  // fetch are companions, as in zip.
  bool begins_anew(const PassEvidence& next) const noexcept {
    return source == next.source && next.made_at > first_at && !next.again;
  }

  // What every fetch looks at comes first, in as few lines of the cache as it can.
  Training* training = nullptr;
  std::uint64_t fetches = 0, length = 0;
  record::ScopeHandle load;  // the fetch under way
  Role role = Role::kNone;
  bool nested = false;      // inside an epoch
  bool trained = false;     // certain: a backward or an optimizer step used a batch of it
  bool evaluates = false;   // as far as is known: no steps are wanted
  bool sure = false;        // a model of the program's ran on it with gradients off
  bool unproven = false;    // nothing was trained since its last fetch
  bool used = false;        // a model has run since its last fetch
  bool ever_used = false;   // a model has run since its first fetch
  bool no_hint = false;     // it fetches with gradients off, but trains
  bool failed = false;      // an exception passed through; if nothing is fetched again, it is over
  bool fresh_step = false;  // the fetch under way opened the step
  bool off = false;         // its last fetch was made with gradients off
  bool waits = false;       // a pass over the same loader has batches left to train with
  bool supersedes = false;  // a pass over the same loader is under way, which may be over
  bool again = false;       // it had ended once: another pass was taken for its successor
  bool orphan = false;      // a scope of the program's has closed its own
  bool drained = false;     // there is no more to fetch, but batches are left to train with: left
  bool parted = false;      // what it fed is over, and it has not fetched since
  bool had_member = false;  // a validation of another loader has ended in its own
  std::uint32_t idle = 0;   // fetches since anything was done with a batch
  std::uint32_t ahead = 0;  // how far fetching is ahead of training
  std::uint32_t group = 0;  // fetched before anything was done with the first
  record::ScopeHandle scope;
  std::uint64_t load_at = 0;     // sequence of the last fetch
  std::uint64_t steps = 0;       // that its fetches have opened
  std::uint64_t step_fetch = 0;  // the number of the fetch that opened the last of them

  std::uint32_t left = 0;      // batches of a drained pass that are still to be trained with
  std::uint32_t per_step = 1;  // how many batches make a step
  const void* source = nullptr;
  std::uint64_t made_ns = 0;
  std::uint64_t made_at = 0;        // the next sequence of its thread when it was made
  std::uint32_t made_depth = 0;     // the depth of the stack when it was made
  std::uint64_t first_at = 0;       // the next sequence when its first fetch began
  std::uint64_t outer_fetches = 0;  // of the pass that it feeds, when it began
  std::uint64_t outer_scope = 0;    // sequence of the scope of the pass that it feeds
  std::uint64_t first_check = 0;    // the fetch with which its scope begins
};

// What stands behind one iterator. Ends with it.
class alignas(64) Pass : public PassEvidence {
 public:
  // `source`: stands for the loader, only compared. `now`: when its iterator was asked for.
  Pass(Here here, const void* source, std::uint64_t now) noexcept;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // True while nothing is known of it: the next fetch wants to hear whether it looks like
  // validation.
  bool fresh() const noexcept { return role == Role::kNone; }
  // It makes an epoch that is trained in: whatever a fetch looks like.
  bool trains() const noexcept { return trained && role == Role::kOwner; }
  // Its last fetch was made with gradients off.
  bool fetched_off() const noexcept { return off; }
  // Several batches of it were fetched, and none was used.
  bool has_unused() const noexcept { return fetches > 1 && !ever_used; }
  // How many batches the loader says it has; 0: it does not say.
  void set_length(std::uint64_t batches) noexcept { length = batches; }

  // Its first fetch begins, on this Training: what was known of it from before is worth nothing.
  void begin(Training& on, Hint hint, std::uint64_t sequence) noexcept;
  void note_fetch() noexcept {
    ++fetches;
    idle = used ? 1 : idle + 1;
    // Several at a time, again and again: they are for one step, not fetched ahead.
    if (ever_used && idle > 1) ahead = 0;
    used = failed = parted = false;
    unproven = true;
  }
  // Its last fetch has opened a step.
  void note_step() noexcept;
  // Something was done with its batches.
  void note_use() noexcept;
  // Batches that no finished step was on, now that there are no more.
  std::uint32_t count_unfinished() noexcept;
};

}  // namespace sonde::hook
