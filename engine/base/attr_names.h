// The names of attributes that one part of the program writes and another one reads.
#pragma once

#include <string_view>

namespace sonde::base {

// On a span that an exception passed through: the class of the exception and its text.
inline constexpr std::string_view kExceptionAttr = "exception";
inline constexpr std::string_view kExceptionMessageAttr = "exception_message";
// On a span that hands work to a device without waiting for it: the attribute's name, its value,
// and both as a JSON member.
inline constexpr std::string_view kTimingAttr = "timing";
inline constexpr std::string_view kDispatch = "dispatch";
inline constexpr std::string_view kDispatchMember = R"("timing":"dispatch")";
// On a step that mixed precision skipped because a gradient was not finite: the name, and name and
// value as a JSON member.
inline constexpr std::string_view kSkippedAttr = "skipped";
inline constexpr std::string_view kSkippedMember = R"("skipped":true)";
// On a span that fetched data: how long the fetch took.
inline constexpr std::string_view kDataLoadNsAttr = "data_load_ns";
// On a session: the snapshot mode, why there are no snapshots, and how many records were taken.
inline constexpr std::string_view kSnapshotsAttr = "snapshots";
inline constexpr std::string_view kSnapshotsReasonAttr = "snapshots_reason";
inline constexpr std::string_view kSnapshotRecordsAttr = "snapshot_records";

}  // namespace sonde::base
