#include "engine/cli/choice.h"

#include <limits>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/cli/output.h"
#include "engine/model/missing.h"
#include "engine/report/missing.h"
#include "engine/run/selection.h"

namespace sonde::cli {

void add_choice(CLI::App& app, run::Choice& choice) {
  app.add_option("--rank", choice.rank, "Only this rank");
  app.add_option("--run", choice.run, "Only this run: its number, or last")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()) | CLI::IsMember({"last"}));
}

void complain_of(const std::vector<model::Missing>& missing, const std::string& directory) {
  for (const model::Missing& each : missing) complain(report::missing_line(each, directory));
}

}  // namespace sonde::cli
