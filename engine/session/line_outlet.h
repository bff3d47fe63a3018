// A receiver of lines, and which lines it gets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/model/level.h"

namespace sonde::session {

using LineWriter = std::function<void(const std::vector<std::string>&)>;

struct LineOutlet {
  model::LineFilter filter;
  LineWriter write;
};

}  // namespace sonde::session
