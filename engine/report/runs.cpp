#include "engine/report/runs.h"

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "engine/analysis/summary.h"
#include "engine/model/runs.h"
#include "engine/report/times.h"

namespace sonde::report {

std::string run_heading(const model::RunPart& part, const model::Runs& runs, bool numbered) {
  std::string out = numbered ? fmt::format("run {} of {},", part.run, runs.count()) : "run";
  const std::string start = point_in_time(part.start_ns);
  out += part.session ? fmt::format(" of {}", start) : fmt::format(" seen from {} on", start);
  out += fmt::format(", pid {}", part.pid);
  if (!part.run_id.empty()) out += fmt::format(", run id {}", part.run_id);
  return out;
}

std::string added_up_line(const analysis::Summary& summary, std::size_t runs) {
  if (runs < 2 || summary.ranks.empty()) return {};
  return fmt::format("adds up {} runs; --run last shows only the newest, --run N only run N\n",
                     runs);
}

}  // namespace sonde::report
