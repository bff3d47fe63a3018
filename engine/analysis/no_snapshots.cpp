#include "engine/analysis/no_snapshots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

namespace {

using Cause = NoSnapshots::Cause;

struct Epochs {
  std::size_t ended = 0;
  const model::Span* open = nullptr;
};

Epochs epochs_of(const model::Span& session, std::span<const model::Span> epochs,
                 const model::Runs& runs) {
  Epochs found;
  for (const model::Span& epoch : epochs) {
    if (epoch.rank != session.rank || runs.run_of(epoch) != runs.run_of(session)) continue;
    const bool cut = epoch.open() || epoch.closed_by() == base::kClosedByDeath;
    if (!cut) ++found.ended;
    if (epoch.open()) found.open = &epoch;
  }
  return found;
}

Cause cause_of(const model::Span& session, const Epochs& epochs, const NoSnapshots& known) {
  const base::JsonValue mode = session.attr(base::kSnapshotsAttr);
  if (!mode) return Cause::kForeign;
  if (mode.is("off")) return Cause::kOff;
  if (known.taken > 0) return Cause::kGone;
  if (!known.said.empty()) return Cause::kSaid;
  if (session.left || session.closed_by() == base::kClosedByDeath)
    return epochs.ended == 0 ? Cause::kDiedEarly : Cause::kDied;
  if (!session.open()) return Cause::kUnknown;
  if (epochs.ended != 0) return Cause::kOnTheWay;
  return epochs.open != nullptr ? Cause::kFirstEpoch : Cause::kNoEpochYet;
}

}  // namespace

std::vector<NoSnapshots> why_no_snapshots(std::span<const model::Span> sessions,
                                          std::span<const model::Span> epochs,
                                          const model::Runs& runs) {
  std::vector<NoSnapshots> found;
  for (const model::Span& session : sessions) {
    const Epochs own = epochs_of(session, epochs, runs);
    NoSnapshots& one = found.emplace_back();
    one.run = runs.run_of(session);
    one.rank = session.rank;
    one.said = session.attr(base::kSnapshotsReasonAttr).text();
    one.taken = session.attr(base::kSnapshotRecordsAttr).integer();
    if (own.open != nullptr) one.epoch_ns = std::max<std::int64_t>(own.open->length_ns(), 0);
    one.cause = cause_of(session, own, one);
  }
  std::stable_sort(found.begin(), found.end(), [](const NoSnapshots& a, const NoSnapshots& b) {
    return std::pair(a.run, a.rank) < std::pair(b.run, b.rank);
  });
  return found;
}

}  // namespace sonde::analysis
