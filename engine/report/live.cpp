#include "engine/report/live.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/line/line.h"
#include "engine/model/level.h"
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

LiveLines::LiveLines(model::LineFilter filter, std::string directory)
    : filter_(std::move(filter)), directory_(std::move(directory)) {}

std::string LiveLines::draw(const model::Look& look) {
  std::string out;
  for (const model::ProcessEvent& event : look.began) out += process_line(event, directory_);
  add_spans(out, look);
  for (const model::ProcessEvent& event : look.ended) out += process_line(event, directory_);
  return out;
}

// Whether it is known if the span is to be shown.
bool LiveLines::is_decided(const model::LiveSpan& span) const {
  return span.place.settled() || filter_.level == model::Level::kAll ||
         model::level_is_fixed(span.span.name);
}

// A span for which it is not known waits, but only for a few looks: the scopes it waits for may
// have been lost.
void LiveLines::add_spans(std::string& out, const model::Look& look) {
  constexpr std::uint64_t kPatience = 4;  // looks
  ++looks_;
  std::vector<Waiting> before = std::exchange(waiting_, {});
  std::vector<const model::LiveSpan*> shown;
  const auto show = [&](const model::LiveSpan& span) {
    if (filter_.shows(span.span.name, span.place)) shown.push_back(&span);
  };
  for (Waiting& each : before) {
    look.around.follow(each.span.place);
    if (!is_decided(each.span) && looks_ - each.look < kPatience) {
      waiting_.push_back(std::move(each));
    } else {
      show(each.span);
    }
  }
  for (const model::LiveSpan& span : look.spans) {
    if (is_decided(span)) {
      show(span);
    } else {
      waiting_.push_back({span, looks_});
    }
  }
  std::ranges::stable_sort(shown, {},
                           [](const model::LiveSpan* span) { return span->span.end_ns; });
  for (const model::LiveSpan* span : shown) out += live_line(*span, look.several_ranks);
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
