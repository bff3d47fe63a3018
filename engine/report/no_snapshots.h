// Why a run has no snapshots, in words.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/analysis/no_snapshots.h"

namespace sonde::report {

// Why one session has none, and what to do about it.
std::string no_snapshots_line(const analysis::NoSnapshots& why);

// Explains all sessions of a directory, one line for each reason, with the sessions it is true of.
// Without any session, one line asks for the directory of the whole run.
std::vector<std::string> no_snapshots_lines(std::span<const analysis::NoSnapshots> sessions);

}  // namespace sonde::report
