#include "engine/run/directory_source.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/model/process.h"
#include "engine/run/source.h"
#include "engine/spool/directory.h"
#include "engine/spool/recovery.h"

namespace sonde::run {

base::Status DirectorySource::inspect(const std::string& process, Process& out) {
  return spool::inspect_journal(process, out);
}

// A single file has no directory whose journals could be recovered; an empty path would stand for
// the working directory.
model::Recovery DirectorySource::recover() {
  return is_whole_run() ? spool::recover_directory(location_.output_dir) : model::Recovery();
}

// The clocks of several machines may differ.
std::int64_t DirectorySource::sealed_ns(const std::string& batch) const {
  constexpr std::int64_t kClockSlack = 10'000'000'000;
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const std::optional<std::int64_t> created = spool::created_ns_of(batch);
  return created && *created < kNever - kClockSlack ? *created + kClockSlack : kNever;
}

}  // namespace sonde::run
