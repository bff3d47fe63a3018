// Opens the run that a user names.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/run/source.h"

namespace sonde::run {

// `path`: as in locate() (engine/run/locate.h). Null where there is no run; `status` then says why.
std::unique_ptr<Source> open_source(const std::string& path, base::Status& status);

}  // namespace sonde::run
