// All passes over loaders that one stack knows, and which of them leads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

struct Passes {
  Pass* innermost() const noexcept { return owners.empty() ? nullptr : owners.back(); }
  // The pass whose validation is open and the innermost scope of ours; nullptr: there is none.
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
  // A model ran, a backward or an optimizer step came: on batches of all that have fetched.
  void use_batches() noexcept {
    if (fetched) [[unlikely]]
      use_fetched();
  }
  SONDE_APART void use_fetched() noexcept;
  void note_failure() noexcept;
  // Passes that fetch beside this one, as in zip, are no validations either.
  void take_along(const Pass& pass, bool trained) noexcept;
  // It fed the epoch of another pass, and is over. If that one has fetched nothing in the meantime,
  // its epoch may be over as well.
  void note_fed(const Pass& pass) noexcept;
  // Has this pass fed that one's epoch last, and that one has not fetched since?
  bool has_fed(const PassEvidence& outer, const PassEvidence& next) const noexcept;
  bool trained_before(const void* source) const noexcept;
  // A pass is over: its loader is likely to be used in the same way again.
  void remember(const Pass& pass);
  // Takes it out of the lists. It may be freed by this: the last use.
  void remove(Pass& pass);

  Pass* last = nullptr;           // fetched last
  Pass* peeked = nullptr;         // has fetched once, and nothing has happened since
  std::uint32_t since_fetch = 0;  // iterations of the optimizers since the last fetch
  std::uint32_t fetch_depth = 0;
  bool fetched = false;  // nothing was done with what was fetched last

  std::vector<Pass*> owners;                // passes with a scope, the outermost first
  std::vector<Pass*> known;                 // all that have begun
  std::vector<std::unique_ptr<Pass>> kept;  // drained ones whose iterators are gone

  std::vector<const void*> sources;  // loaders whose last pass trained, the newest at the end
  // A pass that has fed another's epoch and ended, while that other fetched nothing.
  const void* fed_by = nullptr;
  std::uint64_t fed_scope = 0, fed_fetches = 0;
};

}  // namespace sonde::hook
