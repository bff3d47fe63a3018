// The names of attributes that Python writes, from the list that the engine reads by.
#include "engine/base/attr_names.h"

#include <nanobind/nanobind.h>

#include <string_view>

#include "python/native/module.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

struct Constant {
  const char* name;
  std::string_view text;
};
constexpr Constant kConstants[] = {
    {"PID", base::kPidAttr},
    {"RUN", base::kRunAttr},
    {"PROCESS", base::kProcessAttr},
    {"LAUNCH", base::kLaunchAttr},
    {"ENDED_BY", base::kEndedByAttr},
    {"RETURN", base::kEndedByReturn},
    {"EXIT", base::kEndedByExit},
    {"EXCEPTION", base::kEndedByException},
    {"SHUTDOWN", base::kEndedByShutdown},
    {"EXIT_CODE", base::kExitCodeAttr},
    {"HINT", base::kHintAttr},
    {"TIMING", base::kTimingAttr},
    {"DISPATCH", base::kDispatch},
    {"UNAVAILABLE", base::kUnavailableAttr},
    {"SNAPSHOTS", base::kSnapshotsAttr},
    {"SNAPSHOTS_REASON", base::kSnapshotsReasonAttr},
    {"SNAPSHOT_RECORDS", base::kSnapshotRecordsAttr},
};

}  // namespace

void add_attr_names(nb::module_& attrs) {
  for (const Constant& each : kConstants)
    attrs.attr(each.name) = nb::str(each.text.data(), each.text.size());
}

}  // namespace sonde::native
