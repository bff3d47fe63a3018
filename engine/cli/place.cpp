#include "engine/cli/place.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include "engine/base/status.h"
#include "engine/cli/output.h"

namespace sonde::cli {

void add_directory(CLI::App& app, std::string& directory, const std::string& what) {
  app.add_option("DIR", directory,
                 what +
                     "; without it, the newest run in the working directory or in a folder "
                     "of it");
}

std::optional<run::Place> find_place(const std::string& directory) {
  run::Place place;
  const base::Status status = run::locate(directory, place);
  if (status.ok()) return place;
  complain(directory.empty()
               ? "there is no run in the working directory or in a folder of it; name the output "
                 "directory of a run or its spool"
               : status.text() + "; name the output directory of a run or its spool");
  return {};
}

std::optional<run::Place> find_records(const std::string& directory) {
  std::optional<run::Place> place = find_place(directory);
  if (!place || !place->empty()) return place;
  complain(place->called +
           " holds no spool file and no journal; name the output directory of a run");
  return {};
}

bool report_skipped(const run::Skipped& skipped) {
  for (const std::string& problem : skipped.problems) complain("skipped: " + problem);
  if (skipped.skipped != 0) {
    complain(fmt::format("{} of {} files could not be read; the rest is shown", skipped.skipped,
                         skipped.skipped + skipped.read));
  }
  return !skipped.nothing_readable();
}

}  // namespace sonde::cli
