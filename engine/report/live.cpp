#include "engine/report/live.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/line/line.h"
#include "engine/model/live.h"
#include "engine/model/trace.h"
#include "engine/report/more_marks.h"
#include "engine/report/times.h"

namespace sonde::report {

namespace {

std::string prefix(std::string_view api) {
  std::string out = "[";
  line::append_clean(out, api.empty() ? "sonde" : api);
  return out + "] ";
}

}  // namespace

std::string live_line(const model::LiveSpan& span, bool several_ranks) {
  std::string out = prefix(span.api);
  if (several_ranks) out += fmt::format("rank {} ", span.span.rank);
  std::vector<const model::Mark*> marks;
  marks.reserve(span.marks.size());
  for (const model::Mark& mark : span.marks) marks.push_back(&mark);
  line::append_line(out, span.span, marks);
  append_more_marks(out, span.more_marks);
  return out + '\n';
}

std::string process_line(const model::ProcessEvent& event, std::string_view directory) {
  std::string out = prefix(event.api) + fmt::format("pid {} (rank {}) ", event.pid, event.rank);
  switch (event.kind) {
    case model::ProcessEvent::Kind::kBegan:
      return out + fmt::format("has been running for {}\n", long_duration(event.age_ns));
    case model::ProcessEvent::Kind::kDied:
      return out + fmt::format("died; see what was open with: sonde autopsy {}\n", directory);
    case model::ProcessEvent::Kind::kEnded:
      break;
  }
  return out + "ended\n";
}

std::string nothing_running_line(std::string_view directory) {
  return fmt::format(
      "no process is running in {}; start the run first, or see what is recorded with: sonde trace "
      "{}",
      directory, directory);
}

std::string directory_gone_line(std::string_view directory) {
  return fmt::format(
      "{} is gone, so nothing more can be seen of its processes, which may still run; name the "
      "directory that they write to now",
      directory);
}

}  // namespace sonde::report
