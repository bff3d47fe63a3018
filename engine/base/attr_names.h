// The names of attributes that one part of the program writes and another one reads.
#pragma once

#include <string_view>

namespace sonde::base {

// Of a span that an exception passed through: its class and its text.
inline constexpr std::string_view kExceptionAttr = "exception";
inline constexpr std::string_view kExceptionMessageAttr = "exception_message";
// Of spans in which work was handed to a device that was not waited for, its value, and both as
// they are written.
inline constexpr std::string_view kTimingAttr = "timing";
inline constexpr std::string_view kDispatch = "dispatch";
inline constexpr std::string_view kDispatchMember = R"("timing":"dispatch")";
// Of a step whose optimizer was not called, because a gradient was not finite; and as it is
// written.
inline constexpr std::string_view kSkippedAttr = "skipped";
inline constexpr std::string_view kSkippedMember = R"("skipped":true)";
// Of a span that fetched data itself: how long that took.
inline constexpr std::string_view kDataLoadNsAttr = "data_load_ns";
// Of a session: whether snapshots are wanted, why there are none, and how many were taken.
inline constexpr std::string_view kSnapshotsAttr = "snapshots";
inline constexpr std::string_view kSnapshotsReasonAttr = "snapshots_reason";
inline constexpr std::string_view kSnapshotRecordsAttr = "snapshot_records";

}  // namespace sonde::base
