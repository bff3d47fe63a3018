// Opening the run that a command is to read.
#pragma once

#include <memory>
#include <string>

#include "engine/model/skipped.h"
#include "engine/run/source.h"

namespace CLI {
class App;
}

namespace sonde::cli {

// The positional argument DIR. `what`: what it may name.
void add_directory(CLI::App& app, std::string& directory, const std::string& what);

inline constexpr const char* kDirectory = "Output directory of a run";
inline constexpr const char* kDirectoryOrFile =
    "Output directory of a run, its spool, or one spool file";

// Null, after a line on standard error that says what to name instead.
std::unique_ptr<run::Source> open_run(const std::string& directory);
// As open_run, for commands that cannot use a run without any record.
std::unique_ptr<run::Source> open_records(const std::string& directory);

// Says what could not be read. False when nothing could be.
bool report_skipped(const model::Skipped& skipped);

}  // namespace sonde::cli
