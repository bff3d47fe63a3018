// The line that says what a program could do to have its loops recorded.
#pragma once

#include <string>
#include <string_view>

#include "engine/line/line.h"

namespace sonde::report {

inline void append_hint(std::string& out, std::string_view hint) {
  out += "hint: ";
  line::append_clean(out, hint);
  out += '\n';
}

}  // namespace sonde::report
