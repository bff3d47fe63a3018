// Follows the marks of a span where older ones are left out.
#pragma once

#include <cstddef>
#include <string>

#include <fmt/format.h>

namespace sonde::report {

inline void append_more_marks(std::string& out, std::size_t count) {
  if (count != 0) out += fmt::format(" ({} more mark{})", count, count == 1 ? "" : "s");
}

}  // namespace sonde::report
