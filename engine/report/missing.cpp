#include "engine/report/missing.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/line/line.h"
#include "engine/model/missing.h"

namespace sonde::report {

namespace {

// Runs are numbered from 1 on, without gaps.
std::string held_runs(const std::vector<std::string>& runs) {
  if (runs.empty()) return "no run";
  if (runs.size() == 1) return "only run 1";
  return fmt::format("runs 1 to {}", runs.size());
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kSpoken = 10;
  std::string out;
  std::size_t spoken = 0;
  for (const std::string& name : names) {
    if (spoken == kSpoken) return out + fmt::format(" and {} more", names.size() - kSpoken);
    if (spoken++ != 0) out += ", ";
    line::append_clean(out, name);
  }
  return out;
}

std::string missing_line(const model::Missing& missing, std::string_view directory) {
  using What = model::Missing::What;
  const std::string there = some_of(missing.there);
  switch (missing.what) {
    case What::kRun:
      return fmt::format("there is no run {}; {} holds {}; list them with: sonde trace {}",
                         missing.wanted, directory, held_runs(missing.there), directory);
    case What::kRank:
      return fmt::format("no span has rank {}; the ranks are: {}", missing.wanted, there);
    case What::kName:
      return fmt::format("no span is called {}; there are: {}", missing.wanted, there);
    case What::kEpoch:
      return fmt::format("no snapshot of epoch {}; the epochs are: {}", missing.wanted, there);
    case What::kTensor:
      return fmt::format("no tensor matches {}; there are: {}", missing.wanted, there);
    case What::kGradients:
      return "no gradients were captured; there are only weights";
    case What::kWeights:
      return "no weights were captured; there are only gradients";
    case What::kCaptures:
      break;
  }
  return "nothing was captured";
}

}  // namespace sonde::report
