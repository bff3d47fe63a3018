// All passes over loaders that one stack knows, and which of them leads.
//
// judge.h explains the words pass, check, leader, owed and peek.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

struct Passes {
  Pass* innermost() const noexcept { return owners.empty() ? nullptr : owners.back(); }
  // The pass whose validation is open and is our innermost scope; nullptr: there is none.
  Pass* checking() const noexcept;
  // The pass whose batches are trained with; nullptr: steps follow from the optimizers alone.
  Pass* leader() const noexcept;
  bool owns(std::uint64_t sequence) const noexcept;
  bool is_fetching(std::uint64_t sequence) const noexcept;

  void note_fetch(Pass& pass) noexcept {
    pass.note_fetch();
    fetched = true;
    since_fetch = 0;
    last = &pass;
  }
  // A model runs, or a backward or an optimizer step begins. That is a use of the batches of all
  // passes that have fetched.
  void use_batches() noexcept {
    if (fetched) [[unlikely]]
      use_fetched();
  }
  SONDE_APART void use_fetched() noexcept;
  void note_failure() noexcept;
  // This pass is not a validation. Passes that fetch beside it, as in zip, are not either.
  void take_along(const Pass& pass, bool trained) noexcept;
  // This pass fed the epoch of another one, and is over. If the other pass has fetched nothing in
  // the meantime, its epoch may be over as well.
  void note_fed(const Pass& pass) noexcept;
  // Was `next`, or a pass over the same loader, the last to feed `outer`, and has `outer` not
  // fetched since? If `outer` has fetched only once, a pass over any loader counts.
  bool has_fed(const PassEvidence& outer, const PassEvidence& next) const noexcept;
  bool trained_before(const void* source) const noexcept;
  // A pass is over: its loader is likely to be used in the same way again.
  void remember(const Pass& pass);
  // Takes the pass out of the lists. This call may free it, so it has to be the last use.
  void remove(Pass& pass);

  Pass* last = nullptr;           // the pass that fetched last
  Pass* peeked = nullptr;         // a pass that has fetched once; nothing has happened since
  Pass* owed = nullptr;           // a batch of this pass waits for its step during a validation
  std::uint32_t since_fetch = 0;  // iterations of the optimizers since the last fetch
  std::uint32_t fetch_depth = 0;  // how many fetches are under way, one inside the other
  bool fetched = false;           // nothing was done yet with the batch that was fetched last

  std::vector<Pass*> owners;                // passes with a scope, the outermost first
  std::vector<Pass*> known;                 // all that have begun
  std::vector<std::unique_ptr<Pass>> kept;  // drained passes whose iterators are gone

  std::vector<const void*> sources;  // loaders whose last pass trained, the newest at the end
  // The last pass that fed the epoch of another one, and ended before that one fetched again.
  struct Feeding {
    const void* by = nullptr;   // the loader of the pass that fed
    std::uint64_t scope = 0;    // sequence of the scope of the pass that was fed
    std::uint64_t fetches = 0;  // how often the pass that was fed had fetched
  };
  Feeding fed;
};

}  // namespace sonde::hook
