// The command `sonde`: declares the commands of kCommands and runs the chosen one.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "engine/cli/command.h"
#include "engine/cli/output.h"

namespace {

// Whether the first word is a command, an option or missing.
bool is_known(int argc, char** argv) {
  using sonde::cli::kCommands;
  const std::string_view word = argc > 1 ? argv[1] : "";
  return word.empty() || word.front() == '-' ||
         std::ranges::any_of(kCommands, [&](const auto& each) { return word == each.name; });
}

void complain_of_command(std::string_view word) {
  std::string text = "there is no command " + std::string(word) + "; there are ";
  for (const sonde::cli::Command& each : sonde::cli::kCommands) {
    if (&each != std::begin(sonde::cli::kCommands)) text += ", ";
    text += each.name;
  }
  sonde::cli::complain(text + ": sonde --help says what they do");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sonde;
  cli::prepare_output();
  if (!is_known(argc, argv)) return complain_of_command(argv[1]), 2;
  CLI::App app(
      "Sonde reads what a training run recorded: its tree of spans, its live state, its last "
      "moments.",
      "sonde");
  app.set_version_flag("--version", "sonde " SONDE_VERSION);
  app.require_subcommand(0, 1);
  cli::Run chosen;
  for (const cli::Command& command : cli::kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->callback([&chosen, run = command.declare(*sub)] { chosen = run; });
  }
  try {
    app.parse(argc, argv);
    if (!chosen) {
      cli::print(app.help());
      return 0;
    }
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {
    cli::complain("out of memory: narrow it down with --last, --name or --summary");
  } catch (const std::exception& error) {
    cli::complain(std::string(error.what()) + "; this is a bug, please report it");
  }
  return 1;
}
