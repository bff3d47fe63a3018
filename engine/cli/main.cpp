// The command `sonde`: declares the commands of kCommands, runs the one that was asked for.
#include <CLI/CLI.hpp>

#include <exception>
#include <new>
#include <string>

#include "engine/cli/command.h"
#include "engine/cli/output.h"

int main(int argc, char** argv) {
  using namespace sonde;
  cli::prepare_output();
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
