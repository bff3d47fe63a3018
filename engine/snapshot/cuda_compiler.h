// The kernels, compiled for the device at hand with NVRTC, which comes with the frameworks' own
// packages and is loaded from there.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace sonde::snapshot {

// Where NVRTC may lie, the likeliest first. Its plain name is tried after these.
void set_nvrtc_paths(std::vector<std::string> paths);

// `image`: what the driver loads. Takes a second or two.
base::Status compile_kernels(int compute_major, int compute_minor, std::string& image);

}  // namespace sonde::snapshot
