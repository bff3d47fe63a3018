// A receiver of lines, and which lines it gets.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/model/level.h"

namespace sonde::session {

using LineWriter = std::function<void(const std::vector<std::string>&)>;

struct LineOutlet {
  std::string target;  // where the lines go, for messages: "stdout"
  model::LineFilter filter;
  LineWriter write;
};

}  // namespace sonde::session
