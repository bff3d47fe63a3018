// The names of attributes that more than one part of the program writes or reads, and values that
// are fixed. Python has them as `_core.attrs`.
#pragma once

#include <string_view>

namespace sonde::base {

// On every session, whatever the API and the version of the format.
inline constexpr std::string_view kPidAttr = "pid";
// On a session: which run it is part of. Processes of one program have the same kRunAttr.
inline constexpr std::string_view kRunAttr = "sonde.run";
inline constexpr std::string_view kProcessAttr = "sonde.process";  // only of children: their name
inline constexpr std::string_view kLaunchAttr = "sonde.launch";    // what a launcher gave all ranks
// On a session: how it ended, and the code or signal.
inline constexpr std::string_view kEndedByAttr = "ended_by";
inline constexpr std::string_view kEndedByReturn = "return";
inline constexpr std::string_view kEndedByExit = "exit";
inline constexpr std::string_view kEndedByException = "exception";
inline constexpr std::string_view kEndedBySignal = "signal";
inline constexpr std::string_view kEndedByShutdown = "shutdown";
inline constexpr std::string_view kExitCodeAttr = "exit_code";
inline constexpr std::string_view kSignalAttr = "signal";
// On a session: what the program could do to have its loops recorded.
inline constexpr std::string_view kHintAttr = "sonde.hint";
// On a span that was not closed by its own code: what closed it.
inline constexpr std::string_view kClosedByAttr = "sonde.closed_by";
inline constexpr std::string_view kClosedByDeath = "death";  // of the process; recovery closed it
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
// On a forward, a step or a validation: whether the model was training; and as it is written.
inline constexpr std::string_view kModeAttr = "mode";
inline constexpr std::string_view kTrainMode = "train";
inline constexpr std::string_view kEvalMode = "eval";
inline constexpr std::string_view kTrainModeMember = R"("mode":"train")";
inline constexpr std::string_view kEvalModeMember = R"("mode":"eval")";
// On the step of an optimizer: the class of the optimizer.
inline constexpr std::string_view kOptimizerAttr = "optimizer";
// On a tensor: why there are no statistics.
inline constexpr std::string_view kUnavailableAttr = "unavailable";
// On a session: the snapshot mode, why there are no snapshots, and how many records were taken.
inline constexpr std::string_view kSnapshotsAttr = "snapshots";
inline constexpr std::string_view kSnapshotsReasonAttr = "snapshots_reason";
inline constexpr std::string_view kSnapshotRecordsAttr = "snapshot_records";

}  // namespace sonde::base
