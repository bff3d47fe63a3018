#include "engine/report/reading.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/model/skipped.h"

namespace sonde::report {

std::string no_run_line(std::string_view directory, std::string_view problem) {
  if (directory.empty()) {
    return "there is no run in the working directory or in its folders; name the output "
           "directory of a run or its spool";
  }
  return fmt::format("{}; name the output directory of a run or its spool", problem);
}

std::string no_records_line(std::string_view directory) {
  return fmt::format("{} holds no spool file and no journal; name the output directory of a run",
                     directory);
}

std::string not_a_directory_line(std::string_view file) {
  return fmt::format("{} is a file; name the output directory of the run", file);
}

std::vector<std::string> skipped_lines(const model::Skipped& skipped) {
  std::vector<std::string> lines;
  lines.reserve(skipped.problems.size() + 1);
  for (const std::string& problem : skipped.problems) lines.push_back("skipped: " + problem);
  if (skipped.skipped != 0) {
    lines.push_back(fmt::format("{} of {} files could not be read; the rest is shown",
                                skipped.skipped, skipped.skipped + skipped.read));
  }
  return lines;
}

}  // namespace sonde::report
