// The options --rank and --run, and messages for a choice that is not there.
#pragma once

#include <string>
#include <vector>

#include "engine/model/missing.h"
#include "engine/run/selection.h"

namespace CLI {
class App;
}

namespace sonde::cli {

void add_choice(CLI::App& app, run::Choice& choice);

// One line on standard error for each. `directory`: as the user called it.
void complain_of(const std::vector<model::Missing>& missing, const std::string& directory);

}  // namespace sonde::cli
