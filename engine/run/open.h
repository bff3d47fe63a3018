// Opens the run that a user names.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/run/source.h"

namespace sonde::run {

// `path`: an output directory, a folder with output directories in it (the newest
// is taken), the spool or live folder of one, or a single spool file. An empty path stands for the
// newest run in the working directory. Null where there is none; `status` then says why.
std::unique_ptr<Source> open_source(const std::string& path, base::Status& status);

}  // namespace sonde::run
