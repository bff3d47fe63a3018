// The figures of a summary's node: the JSON, the Arrow table and the DataFrame take their names and
// values from this list.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/analysis/summary.h"

namespace sonde::analysis {

struct SummaryField {
  const char* name;
  std::int64_t (*of)(const SummaryNode&);  // kNone: not known
  bool optional = false;                   // the DataFrame has it as floats, with NaN for kNone
};

inline constexpr std::array kSummaryFields = {
    SummaryField{"count", [](const SummaryNode& n) { return static_cast<std::int64_t>(n.count); }},
    SummaryField{"open", [](const SummaryNode& n) { return static_cast<std::int64_t>(n.open); }},
    SummaryField{"open_ns", [](const SummaryNode& n) { return n.open_ns; }},
    SummaryField{"skipped",
                 [](const SummaryNode& n) { return static_cast<std::int64_t>(n.skipped); }},
    SummaryField{"total_ns", [](const SummaryNode& n) { return n.total_ns; }},
    SummaryField{"self_ns", [](const SummaryNode& n) { return n.self_ns; }},
    SummaryField{"mean_ns", [](const SummaryNode& n) { return n.mean_ns; }, true},
    SummaryField{"p50_ns", [](const SummaryNode& n) { return n.p50_ns; }, true},
    SummaryField{"p95_ns", [](const SummaryNode& n) { return n.p95_ns; }, true},
    SummaryField{"min_ns", [](const SummaryNode& n) { return n.min_ns; }, true},
    SummaryField{"max_ns", [](const SummaryNode& n) { return n.max_ns; }, true},
    SummaryField{"gpu_ns", [](const SummaryNode& n) { return n.gpu_ns; }, true},
};

inline constexpr const char* kTimingField = "timing";
inline constexpr const char* kShareField = "share_of_parent";  // optional too

}  // namespace sonde::analysis
