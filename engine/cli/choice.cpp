#include "engine/cli/choice.h"

#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/cli/output.h"
#include "engine/model/missing.h"
#include "engine/report/missing.h"
#include "engine/run/selection.h"

namespace sonde::cli {

namespace {

run::RunChoice run_called(const std::string& text) {
  using Which = run::RunChoice::Which;
  if (text == "last") return {Which::kLast};
  run::RunChoice run{Which::kNumber};
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, run.number);
  if (result.ec == std::errc() && result.ptr == end && run.number != 0) return run;
  throw CLI::ValidationError("--run",
                             "\"" + text + "\" is not a run; give a number from 1 on, or last");
}

}  // namespace

void add_choice(CLI::App& app, run::Choice& choice) {
  app.add_option("--rank", choice.rank, "Only this rank");
  app.add_option_function<std::string>(
      "--run", [&choice](const std::string& text) { choice.run = run_called(text); },
      "Only this run: its number, or last");
}

void complain_of(const std::vector<model::Missing>& missing, const std::string& directory) {
  for (const model::Missing& each : missing) complain(report::missing_line(each, directory));
}

}  // namespace sonde::cli
