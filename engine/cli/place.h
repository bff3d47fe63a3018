// The run that a command is to read.
#pragma once

#include <optional>
#include <string>

#include "engine/run/locate.h"
#include "engine/run/reader.h"

namespace CLI {
class App;
}

namespace sonde::cli {

// The positional argument DIR. `what` it may be, as far as the command has a choice.
void add_directory(CLI::App& app, std::string& directory, const std::string& what);

inline constexpr const char* kDirectory = "Output directory of a run";
inline constexpr const char* kDirectoryOrFile =
    "Output directory of a run, its spool, or one spool file";

// Nothing, after a line on standard error that says what to name instead.
std::optional<run::Place> find_place(const std::string& directory);
// The same where a place without any record is of no use either.
std::optional<run::Place> find_records(const std::string& directory);

// Says what could not be read. False when nothing could be.
bool report_skipped(const run::Skipped& skipped);

}  // namespace sonde::cli
