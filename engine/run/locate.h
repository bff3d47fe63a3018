// Finds the run that a user names.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace sonde::run {

struct Location {
  std::string called;                 // as the user named it; else the folder that was found
  std::string output_dir;             // holds spool/ and live/; empty when a single file was named
  std::vector<std::string> files;     // spool files, oldest first
  std::vector<std::string> journals;  // of processes that run or died
};

// Accepts an output directory, a folder with output directories in it or in its folders (the newest
// is taken, those in the folder itself first), the spool or live folder of one, or a single spool
// file. An empty path stands for the newest run in the working directory; ENOENT where there is
// none.
base::Status locate(const std::string& path, Location& out);

// Lists the files and journals of the same location again.
base::Status refresh(Location& location);

}  // namespace sonde::run
