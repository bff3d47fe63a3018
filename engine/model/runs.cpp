#include "engine/model/runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace {

// "<api>.run_id" of a session that is called "<api>.session".
std::string run_id_of(const Span& session) {
  return session.attr(std::string(api_of(session)) + ".run_id").text();
}

RunPart session_of(const Span& span) {
  return {.rank = span.rank,
          .pid = span.pid,
          .start_ns = span.start_ns,
          .end_ns = span.end_or_never_ns(),
          .session = true,
          .run_id = run_id_of(span),
          .program = span.attr(base::kRunAttr).text(),
          .process = span.attr(base::kProcessAttr).text(),
          .launch = span.attr(base::kLaunchAttr).text()};
}

struct Run {
  std::set<std::int32_t> ranks;
  std::int64_t end_ns = 0;
  std::string launch;
  bool has_main = false;

  void add(const RunPart& part) {
    ranks.insert(part.rank);
    end_ns = std::max(end_ns, part.end_ns);
    if (launch.empty()) launch = part.launch;
    has_main |= part.process.empty();
  }
  // Whether a session of no known program is another rank of this run.
  bool takes(const RunPart& part) const {
    return has_main && part.process.empty() && end_ns >= part.start_ns &&
           !ranks.contains(part.rank) &&
           (launch.empty() || part.launch.empty() || launch == part.launch);
  }
};

// Numbers runs from 1; a run is at its number less one.
class Numbering {
 public:
  std::size_t number_of(const RunPart& part) {
    const std::size_t number = find(part);
    runs_[number - 1].add(part);
    if (!part.program.empty()) programs_.try_emplace(part.program, number);
    return number;
  }
  std::size_t count() const noexcept { return runs_.size(); }

 private:
  std::size_t find(const RunPart& part) {
    if (const auto found = programs_.find(part.program); found != programs_.end())
      return found->second;
    constexpr std::size_t kLookBack = 64;  // runs that go on at the same time
    const std::size_t oldest = runs_.size() - std::min(runs_.size(), kLookBack);
    for (std::size_t at = runs_.size(); at > oldest; --at) {
      if (runs_[at - 1].takes(part)) return at;
    }
    runs_.emplace_back();
    return runs_.size();
  }

  std::vector<Run> runs_;
  std::map<std::string, std::size_t, std::less<>> programs_;
};

}  // namespace

// Spans come in long rows of one process, so the last one found is tried first.
Runs::Process& Runs::process_of(const Span& span) {
  const Key key(span.rank, span.pid);
  if (recent_ == nullptr || recent_->first != key) recent_ = &*processes_.try_emplace(key).first;
  return recent_->second;
}

void Runs::add(std::span<const Span> spans) {
  for (const Span& span : spans) {
    Process& process = process_of(span);
    process.whole.start_ns = std::min(process.whole.start_ns, span.start_ns);
    process.whole.end_ns = std::max(process.whole.end_ns, span.end_or_never_ns());
    if (span.is_session()) process.sessions.push_back(session_of(span));
  }
}

void Runs::finish() {
  for (auto& [key, process] : processes_) {
    process.whole.rank = key.first;
    process.whole.pid = key.second;
    if (process.sessions.empty()) process.sessions.push_back(process.whole);
    parts_.insert(parts_.end(), process.sessions.begin(), process.sessions.end());
  }
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const RunPart& a, const RunPart& b) { return a.start_ns < b.start_ns; });
  number();
  for (std::size_t i = 0; i < parts_.size(); ++i)
    processes_[{parts_[i].rank, parts_[i].pid}].parts.push_back(i);
}

void Runs::number() {
  Numbering numbering;
  for (RunPart& part : parts_) part.run = numbering.number_of(part);
  count_ = numbering.count();
}

std::size_t Runs::count(std::optional<int> rank) const {
  if (!rank) return count_;
  std::set<std::size_t> found;
  for (const RunPart& part : parts_) {
    if (part.rank == *rank) found.insert(part.run);
  }
  return found.size();
}

std::size_t Runs::run_of(const Span& span) const {
  return processes_.contains({span.rank, span.pid}) ? part_of(span).run : 0;
}

const RunPart& Runs::part_of(const Span& span) const {
  const std::vector<std::size_t>& parts = processes_.at({span.rank, span.pid}).parts;
  const auto found = std::partition_point(
      parts.begin(), parts.end(), [&](std::size_t i) { return parts_[i].end_ns < span.start_ns; });
  return parts_[found == parts.end() ? parts.back() : *found];
}

}  // namespace sonde::model
