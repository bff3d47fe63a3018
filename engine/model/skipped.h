// What could not be read of a run, beside what could.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sonde::model {

struct Skipped {
  static constexpr std::size_t kNamed = 20;
  std::size_t read = 0, skipped = 0;  // files and journals
  std::vector<std::string> problems;  // of the first kNamed that were skipped

  bool nothing_readable() const noexcept { return read == 0 && skipped != 0; }
};

}  // namespace sonde::model
