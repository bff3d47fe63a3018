#include "engine/cli/program.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "engine/cli/command.h"
#include "engine/cli/output.h"

namespace sonde::cli {

namespace {

// Whether the first word is a command, an option or missing.
bool is_known(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  return word.empty() || word.front() == '-' ||
         std::ranges::any_of(kCommands, [&](const auto& each) { return word == each.name; });
}

void complain_of_command(std::string_view word) {
  std::string text = "there is no command " + std::string(word) + "; the commands are ";
  for (const Command& each : kCommands) {
    if (&each != std::begin(kCommands)) text += ", ";
    text += each.name;
  }
  complain(text + "; see sonde --help");
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_output();
  if (!is_known(argc, argv)) return complain_of_command(argv[1]), 2;
  CLI::App app(
      "Sonde reads what a training run recorded: its tree of spans, its live state, its last "
      "moments.",
      "sonde");
  app.set_version_flag("--version", "sonde " SONDE_VERSION);
  app.require_subcommand(0, 1);
  Run chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->callback([&chosen, run = command.declare(*sub)] { chosen = run; });
  }
  try {
    app.parse(argc, argv);
    if (!chosen) {
      print(app.help());
      return 0;
    }
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {
    complain("out of memory; use --last, --name or --summary to read less");
  } catch (const std::exception& error) {
    complain(std::string(error.what()) + "; this is a bug, please report it");
  }
  return 1;
}

}  // namespace sonde::cli
