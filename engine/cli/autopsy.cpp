// sonde autopsy DIR: what dead processes left, and its recovery into the spool.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "engine/cli/command.h"
#include "engine/cli/opening.h"
#include "engine/cli/output.h"
#include "engine/model/process.h"
#include "engine/report/autopsy.h"
#include "engine/report/reading.h"
#include "engine/run/autopsy.h"
#include "engine/run/source.h"

namespace sonde::cli {

namespace {

struct AutopsyOptions {
  std::string directory;
  bool json = false;
  bool keep = false;
};

int run_autopsy(const AutopsyOptions& options) {
  const std::unique_ptr<run::Source> source = open_run(options.directory);
  if (!source) return 1;
  if (!source->is_whole_run()) {
    complain(report::not_a_directory_line(source->called()));
    return 1;
  }
  const model::Autopsy autopsy =
      run::perform_autopsy(*source, {.last = report::kLastShown, .keep = options.keep});
  for (const std::string& problem : autopsy.problems) complain(problem);
  print(options.json ? report::autopsy_json(autopsy) : report::autopsy_text(autopsy));
  return autopsy.problems.empty() ? 0 : 1;
}

}  // namespace

Run declare_autopsy(CLI::App& app) {
  const auto options = std::make_shared<AutopsyOptions>();
  add_directory(app, options->directory, kDirectory);
  app.add_flag("--json", options->json, "JSON instead of text");
  app.add_flag("--keep", options->keep, "Only look: move nothing into the spool");
  return [options] { return run_autopsy(*options); };
}

}  // namespace sonde::cli
