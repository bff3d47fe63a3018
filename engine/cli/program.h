// The command `sonde`: declares the commands of kCommands and runs the chosen one.
#pragma once

namespace sonde::cli {

// Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace sonde::cli
