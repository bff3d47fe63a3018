#include "engine/hook/pass_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/pass.h"
#include "engine/record/scope.h"

namespace sonde::hook {

Pass* Passes::checking() const noexcept {
  Pass* pass = innermost();
  return pass != nullptr && pass->is_check() && record::is_open(pass->scope) ? pass : nullptr;
}

Pass* Passes::leader() const noexcept {
  if (since_fetch > kMostIterations) return nullptr;
  for (std::size_t i = known.size(); i-- > 0;) {
    if (may_lead(*known[i])) return known[i];
  }
  return nullptr;
}

bool Passes::owns(std::uint64_t sequence) const noexcept {
  return std::ranges::any_of(owners,
                             [&](const Pass* pass) { return pass->scope.sequence == sequence; });
}

bool Passes::is_fetching(std::uint64_t sequence) const noexcept {
  return std::ranges::any_of(
      known, [&](const Pass* pass) { return pass->fetch.load.sequence == sequence; });
}

void Passes::use_fetched() noexcept {
  fetched = false;
  for (Pass* pass : known) pass->note_use(count_ahead(pass->batches.idle));
}

void Passes::note_failure() noexcept {
  if (last != nullptr) last->fetch.failed = true;
  if (Pass* pass = innermost()) pass->fetch.failed = true;
}

void Passes::take_along(const Pass& pass, bool trained) noexcept {
  for (Pass* companion : known) {
    if (companion->role != Pass::Role::kMember || !companion->evaluates ||
        companion->begun.first_at < pass.begun.first_at)
      continue;
    companion->evaluates = false;
    companion->trained = companion->batches.no_hint = trained;
  }
}

void Passes::note_fed(const Pass& pass) noexcept {
  for (const Pass* outer : owners) {
    if (outer->scope.sequence != pass.relation.outer_scope ||
        outer->fetch.count != pass.relation.outer_fetches)
      continue;
    fed = {pass.source, pass.relation.outer_scope, pass.relation.outer_fetches};
  }
}

bool Passes::has_fed(const PassEvidence& outer, const PassEvidence& next) const noexcept {
  return fed.scope == outer.scope.sequence && fed.fetches == outer.fetch.count &&
         (fed.by == next.source || outer.fetch.count == 1);
}

bool Passes::trained_before(const void* source) const noexcept {
  return std::ranges::find(sources, source) != sources.end() ||
         std::ranges::any_of(
             known, [&](const Pass* pass) { return pass->trained && pass->source == source; });
}

void Passes::remember(const Pass& pass) {
  constexpr std::size_t kRemembered = 16;
  const auto found = std::ranges::find(sources, pass.source);
  if (pass.trained == (found != sources.end())) return;
  if (!pass.trained) {
    if (pass.evaluates) std::erase(sources, pass.source);
    return;
  }
  if (sources.size() == kRemembered) sources.erase(sources.begin());
  sources.push_back(pass.source);
}

void Passes::remove(Pass& pass) {
  std::erase(known, &pass);
  std::erase(owners, &pass);
  if (last == &pass) last = nullptr;
  if (peeked == &pass) peeked = nullptr;
  if (owed == &pass) owed = nullptr;
  pass.relation.again = pass.role != Pass::Role::kNone;
  pass.role = Pass::Role::kNone;
  pass.seen = nullptr;
  pass.scope = {};
  std::erase_if(kept, [&](const auto& one) { return one.get() == &pass; });
}

}  // namespace sonde::hook
