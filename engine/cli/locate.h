// From what a user names to where things lie.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace sonde::cli {

struct Place {
  std::string output_dir;             // holds spool/ and live/; empty when a single file was named
  std::vector<std::string> files;     // spool files, oldest first
  std::vector<std::string> journals;  // of processes that run or died
};

// Accepts an output directory, the folder that holds it as .cirron, its spool or live folder, or
// one spool file.
base::Status locate(const std::string& path, Place& out);
// The same for a command: false after having said what to name instead.
bool locate_or_complain(const std::string& path, Place& out);
// The same where a place without any file is of no use either.
bool locate_with_records(const std::string& path, Place& out);

// Looks again for files and journals of the same place.
base::Status refresh(Place& place);

}  // namespace sonde::cli
