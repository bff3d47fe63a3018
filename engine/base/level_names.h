// The names of the spans of a training loop, and of the parts of a step.
#pragma once

#include <string_view>

namespace sonde::base {

inline constexpr std::string_view kEpoch = "epoch";
inline constexpr std::string_view kStep = "step";
inline constexpr std::string_view kBatch = "batch";  // a step of a loop that the program announced
inline constexpr std::string_view kValidation = "validation";
inline constexpr std::string_view kPredict = "predict";
inline constexpr std::string_view kTrain = "train";

inline constexpr std::string_view kDataLoad = "data_load";
inline constexpr std::string_view kForward = "forward";
inline constexpr std::string_view kBackward = "backward";
inline constexpr std::string_view kOptimizerStep = "optimizer_step";

}  // namespace sonde::base
