#include "engine/cli/opening.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "engine/base/status.h"
#include "engine/cli/output.h"
#include "engine/model/skipped.h"
#include "engine/report/reading.h"
#include "engine/run/open.h"
#include "engine/run/source.h"

namespace sonde::cli {

void add_directory(CLI::App& app, std::string& directory, const std::string& what) {
  app.add_option("DIR", directory,
                 what +
                     "; without it, the newest run in the working directory or in its "
                     "folders");
}

std::unique_ptr<run::Source> open_run(const std::string& directory) {
  base::Status status;
  std::unique_ptr<run::Source> source = run::open_source(directory, status);
  if (!source) complain(report::no_run_line(directory, status.text()));
  return source;
}

std::unique_ptr<run::Source> open_records(const std::string& directory) {
  std::unique_ptr<run::Source> source = open_run(directory);
  if (!source || !source->empty()) return source;
  complain(report::no_records_line(source->called()));
  return nullptr;
}

bool report_skipped(const model::Skipped& skipped) {
  for (const std::string& line : report::skipped_lines(skipped)) complain(line);
  return !skipped.nothing_readable();
}

}  // namespace sonde::cli
