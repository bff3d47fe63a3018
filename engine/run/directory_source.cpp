#include "engine/run/directory_source.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

#include "engine/base/status.h"
#include "engine/model/process.h"
#include "engine/run/source.h"
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

// Files are named `<20-digit ns>-<id>.json`. The clocks of several machines may differ.
std::int64_t DirectorySource::sealed_ns(const std::string& batch) const {
  constexpr std::size_t kDigits = 20;
  constexpr std::int64_t kClockSlack = 10'000'000'000;
  const std::string name = batch.substr(batch.rfind('/') + 1);
  const char* const end = name.data() + std::min(name.size(), kDigits);
  std::int64_t created = 0;
  const auto result = std::from_chars(name.data(), end, created);
  if (result.ec != std::errc() || result.ptr != name.data() + kDigits)
    return std::numeric_limits<std::int64_t>::max();
  return created + kClockSlack;
}

}  // namespace sonde::run
