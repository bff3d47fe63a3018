// A subcommand: its name, a line of help, and a function that declares its options and returns what
// runs when it is chosen. One file per command; the list is kCommands.
#pragma once

#include <functional>
#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace sonde::cli {

// Returns the exit code.
using Run = std::function<int()>;

struct Command {
  const char* name;
  const char* help;
  Run (*declare)(CLI::App& app);
};

Run declare_trace(CLI::App& app);
Run declare_snapshots(CLI::App& app);
Run declare_autopsy(CLI::App& app);
Run declare_tail(CLI::App& app);

inline constexpr Command kCommands[] = {
    {"trace", "Print the tree of a recorded run, all ranks", declare_trace},
    {"snapshots", "Print the statistics of weights and gradients, by epoch", declare_snapshots},
    {"autopsy", "Say what dead processes left behind and recover it", declare_autopsy},
    {"tail", "Follow the spans of running processes", declare_tail},
};

}  // namespace sonde::cli
