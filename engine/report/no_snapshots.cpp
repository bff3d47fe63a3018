#include "engine/report/no_snapshots.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/no_snapshots.h"
#include "engine/line/line.h"
#include "engine/report/missing.h"
#include "engine/report/times.h"

namespace sonde::report {

std::string no_snapshots_line(const analysis::NoSnapshots& why) {
  using Cause = analysis::NoSnapshots::Cause;
  switch (why.cause) {
    case Cause::kOff:
      return "snapshots were switched off, in the call that started the session or by a setting; "
             "remove that to get them";
    case Cause::kForeign:
      return "the run does not say whether snapshots were on: it was recorded by another SDK, "
             "which captures only what it is told to watch, or by an older Sonde";
    case Cause::kSaid: {
      std::string said;
      line::append_clean(said, why.said);
      return said;
    }
    case Cause::kGone:
      return fmt::format(
          "{} records were taken and none of them is here: they could not be written (the warnings "
          "of the run say why), or their files were removed since",
          why.taken);
    case Cause::kNoEpochYet:
      return "no epoch has begun yet; the first snapshot is taken at the end of an epoch";
    case Cause::kFirstEpoch:
      return fmt::format(
          "the run has been in its first epoch for {}; the first snapshot is taken at the end of "
          "that epoch",
          long_duration(why.epoch_ns));
    case Cause::kOnTheWay:
      return "an epoch has ended, but its snapshot is not written yet; look again in a second";
    case Cause::kDiedEarly:
      return "the process died before its first epoch had ended; snapshots are taken at the end of "
             "an epoch";
    case Cause::kDied:
      return "the process died before any snapshot was written";
    case Cause::kUnknown:
      break;
  }
  return "the run does not say why; see the warnings that it logged";
}

std::vector<std::string> no_snapshots_lines(std::span<const analysis::NoSnapshots> sessions) {
  if (sessions.empty()) {
    return {
        "nothing was captured, and there is no session that says why; name the directory of the "
        "whole run"};
  }
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const analysis::NoSnapshots& each : sessions)
    by_reason[no_snapshots_line(each)].push_back(
        fmt::format("run {} rank {}", each.run, each.rank));
  std::vector<std::string> out;
  for (auto& [reason, who] : by_reason) {
    std::sort(who.begin(), who.end());
    who.erase(std::unique(who.begin(), who.end()), who.end());
    out.push_back(by_reason.size() == 1
                      ? "nothing was captured: " + reason
                      : fmt::format("nothing was captured of {}: {}", some_of(who), reason));
  }
  return out;
}

}  // namespace sonde::report
