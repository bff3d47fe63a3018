// The statistics of a tensor, wherever they are written or read.
#pragma once

#include <array>
#include <cstdint>

#include "engine/model/json_key.h"
#include "engine/model/trace.h"

namespace sonde::model {

template <typename T>
struct Statistic {
  JsonKey key;
  T TensorStats::* member;
};

// In the order in which the spool has them.
inline constexpr std::array kTensorNumbers = {
    Statistic<double>{JsonKey(R"(,"mean":)"), &TensorStats::mean},
    Statistic<double>{JsonKey(R"(,"std":)"), &TensorStats::std},
    Statistic<double>{JsonKey(R"(,"min":)"), &TensorStats::min},
    Statistic<double>{JsonKey(R"(,"max":)"), &TensorStats::max},
    Statistic<double>{JsonKey(R"(,"norm":)"), &TensorStats::norm},
};
inline constexpr std::array kTensorCounts = {
    Statistic<std::int64_t>{JsonKey(R"(,"count":)"), &TensorStats::count},
    Statistic<std::int64_t>{JsonKey(R"(,"nan_count":)"), &TensorStats::nan_count},
    Statistic<std::int64_t>{JsonKey(R"(,"inf_count":)"), &TensorStats::inf_count},
    Statistic<std::int64_t>{JsonKey(R"(,"zero_count":)"), &TensorStats::zero_count},
};

}  // namespace sonde::model
