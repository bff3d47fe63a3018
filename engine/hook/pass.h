// One pass over a loader, and what was seen of it.
//
// judge.h explains the words pass, check, leader, left and peek.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/record/scope.h"

namespace sonde::hook {

enum class Fetched : std::uint8_t { kItem, kEnd, kError };
// What suggests that a fetch belongs to an evaluation, before anything is done with its batch.
enum class Hint : std::uint8_t { kNone, kModelInEval, kGradientsOff };

struct Seen;

// What was seen of a pass: plain values, which judge.h reads, and which events and moves write.
struct PassEvidence {
  enum class Role : std::uint8_t {
    kNone,    // has fetched nothing yet
    kOwner,   // has a scope: epoch or validation
    kMember,  // feeds the epoch of another pass, of a trainer or of the program
  };
  // A program that fetches further ahead than this does something else.
  static constexpr std::uint32_t kFurthestAhead = 16;

  // How it fetches.
  struct Fetch {
    std::uint64_t count = 0;   // how often it has fetched
    std::uint64_t length = 0;  // how many batches the loader says it has; 0: it does not say
    record::ScopeHandle load;  // the fetch under way
    bool opened_step = false;  // its last fetch opened the step
    bool off = false;          // its last fetch was made with gradients off
    bool failed = false;       // an exception passed through: it is over unless it fetches again
    bool drained = false;      // the loader is exhausted, but batches are left to train with
    std::uint32_t left = 0;    // how many batches are left of a drained pass
  };
  // What was done with its batches.
  struct Batches {
    bool used = false;             // a model has run since its last fetch
    bool ever_used = false;        // a model has run since its first fetch
    bool unproven = false;         // nothing was trained since its last fetch
    bool sure = false;             // a model that may be trained ran on them with gradients off
    bool no_hint = false;          // they looked like evaluation and train: hints no longer count
    std::uint32_t idle = 0;        // fetches since anything was done with a batch
    std::uint32_t ahead = 0;       // how many batches fetching is ahead of training
    std::uint32_t group = 0;       // how many were fetched before anything was done with the first
    std::uint32_t per_step = 1;    // how many make a step
    std::uint64_t steps = 0;       // how many steps its fetches have opened
    std::uint64_t step_fetch = 0;  // the number of the fetch that opened the last of these steps
  };
  // How it relates to other passes, and to scopes of the program. An example of each flag; time
  // goes to the right (f: a fetch, t: a step on its batch, |: the loader is exhausted):
  //
  //   pass 1, loader A   f t f t                      its iterator lives, but no more comes from it
  //   pass 2, loader A            f t f t f t |       supersedes: a backward gives it the epoch
  //
  //   pass 3, loader B   f f f t t |     t            a batch is left when the loader is exhausted
  //   pass 4, loader B               f     t f t      waits: until the step on that batch is done
  //
  //   pass 5, loader C   f t            f t           again: a pass over loader D seemed to follow
  //   pass 6, loader D         f t f t                it, but it fetches once more
  //
  //   pass 7, loader E   f t f t |                    has the epoch
  //   pass 8, loader F   f   f      ...               parted: fed that epoch, which is over
  //
  //   scope("mine")      (        )
  //   pass 9, loader G     f t f t  f t               orphan: its epoch, in "mine", was closed
  struct Relation {
    bool waits = false;               // the pass before it, over the same loader, has batches left
    bool supersedes = false;          // an older pass over its loader is open and may be over
    bool again = false;               // it was ended too early: another pass seemed to follow it
    bool parted = false;              // the epoch it fed is over, and it has not fetched since
    bool orphan = false;              // its scope was closed together with a scope of the program
    bool had_member = false;          // another pass ended in its validation since its last fetch
    std::uint64_t outer_scope = 0;    // sequence of the scope of the pass that it feeds
    std::uint64_t outer_fetches = 0;  // how often that pass had fetched when this one began
  };
  // How it began.
  struct Beginning {
    std::uint64_t made_ns = 0;      // when its iterator was made
    std::uint64_t made_at = 0;      // the next sequence of its thread at that time
    std::uint32_t made_depth = 0;   // the depth of the stack at that time
    std::uint64_t first_at = 0;     // the next sequence when its first fetch began
    std::uint64_t first_check = 0;  // the number of the fetch with which its scope begins
  };

  // For a pass whose loader is exhausted: do the batches that are left make one step, or none?
  bool on_last() const noexcept { return fetch.left <= batches.per_step; }
  // Going by the length that the loader reports: is the step of this fetch on its last batch?
  bool fetched_all() const noexcept { return fetch.count == fetch.length + batches.ahead; }
  // Was one batch fetched, and nothing done with it (rule 6)?
  bool is_peek() const noexcept { return fetch.count <= 1 && !trained && !batches.ever_used; }
  // Is it a validation, as far as is known?
  bool is_check() const noexcept { return evaluates && !trained; }
  // Is the scope of the pass an epoch?
  bool is_epoch() const noexcept { return !is_peek() && !nested && (trained || !evaluates); }
  // Is `next` another pass over the same loader, after this one? Iterators that were made before
  // the first fetch run side by side, as in zip.
  bool begins_anew(const PassEvidence& next) const noexcept {
    return source == next.source && next.begun.made_at > begun.first_at && !next.relation.again;
  }

  // What every fetch looks at comes first. With Followed, that is two lines of the cache and a part
  // of the third.
  Fetch fetch;
  Role role = Role::kNone;
  bool nested = false;     // it is inside an epoch
  bool trained = false;    // certain: a backward or an optimizer step has used one of its batches
  bool evaluates = false;  // as far as is known, it is an evaluation: its fetches open no steps
  record::ScopeHandle scope;
  Batches batches;
  std::uint64_t load_at = 0;  // sequence of the last fetch
  Relation relation;
  Beginning begun;
  const void* source = nullptr;  // stands for the loader, only compared
};

// Where a pass is known: the Seen of one stack. It comes first in a Pass, because every fetch looks
// at it.
struct Followed {
  Seen* seen = nullptr;  // nullptr: nowhere yet, or nowhere any more
};
static_assert(sizeof(Followed) + offsetof(PassEvidence, load_at) == 128);

// The pass of one iterator. It ends with the iterator.
class alignas(64) Pass : public Followed, public PassEvidence {
 public:
  // `source`: stands for the loader, only compared. `now`: when its iterator was asked for.
  Pass(Here here, const void* source, std::uint64_t now) noexcept;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Is nothing known of the pass yet? Then the next fetch needs to be told whether it looks like
  // validation.
  bool fresh() const noexcept { return role == Role::kNone; }
  // Does the pass make an epoch that is trained in? Then a fetch trains, whatever it looks like.
  bool trains() const noexcept { return trained && role == Role::kOwner; }
  // Was the last fetch made with gradients off?
  bool fetched_off() const noexcept { return fetch.off; }
  // Were several batches fetched, and none used?
  bool has_unused() const noexcept { return fetch.count > 1 && !batches.ever_used; }
  // How many batches the loader says it has; 0: it does not say.
  void set_length(std::uint64_t number) noexcept { fetch.length = number; }

  // The first fetch begins, on this stack. Forgets everything that was known of the pass.
  void begin(Seen& on, Hint hint, std::uint64_t sequence) noexcept;
  void note_fetch() noexcept {
    ++fetch.count;
    batches.idle = batches.used ? 1 : batches.idle + 1;
    // Several batches are fetched at a time, again and again: they are for one step, and not
    // fetched ahead.
    if (batches.ever_used && batches.idle > 1) batches.ahead = 0;
    batches.used = fetch.failed = relation.parted = false;
    batches.unproven = true;
  }
  // The last fetch has opened a step.
  void note_step() noexcept;
  // Something was done with the batches. `ahead`: if this is the first use, how many of them were
  // fetched ahead.
  void note_use(std::uint32_t ahead) noexcept;
  // What runs next is called with the newest batch. If earlier ones are unused, they were skipped.
  void skip_to_newest() noexcept;
};

}  // namespace sonde::hook
