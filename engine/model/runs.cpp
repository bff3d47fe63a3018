#include "engine/model/runs.h"

#include <algorithm>
#include <set>

namespace sonde::model {

namespace {

std::int64_t end_of(const Span& span) noexcept {
  return span.open() ? std::numeric_limits<std::int64_t>::max() : span.end_ns;
}

RunPart session_of(const Span& span) {
  return {.rank = span.rank,
          .pid = span.pid,
          .start_ns = span.start_ns,
          .end_ns = end_of(span),
          .session = true,
          .run_id = std::string(span.text_attr("cirron.run_id"))};
}

}  // namespace

// Spans come in long rows of one process.
Runs::Process& Runs::process_of(const Span& span) {
  const Key key(span.rank, span.pid);
  if (recent_ == nullptr || recent_->first != key) recent_ = &*processes_.try_emplace(key).first;
  return recent_->second;
}

void Runs::add(std::span<const Span> spans) {
  for (const Span& span : spans) {
    Process& process = process_of(span);
    process.whole.start_ns = std::min(process.whole.start_ns, span.start_ns);
    process.whole.end_ns = std::max(process.whole.end_ns, end_of(span));
    if (!span.parent_id && span.name == kSessionName) process.sessions.push_back(session_of(span));
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
  struct Run {
    std::set<std::int32_t> ranks;
    std::int64_t end_ns;
  };
  constexpr std::size_t kLookBack = 64;  // runs that go on at the same time
  std::vector<Run> runs;
  for (RunPart& part : parts_) {
    std::size_t at = runs.size();
    const std::size_t oldest = at - std::min(at, kLookBack);
    while (at > oldest &&
           (runs[at - 1].end_ns < part.start_ns || runs[at - 1].ranks.contains(part.rank)))
      --at;
    if (at == oldest) {
      runs.push_back({{}, part.end_ns});
      at = runs.size();
    }
    runs[at - 1].ranks.insert(part.rank);
    runs[at - 1].end_ns = std::max(runs[at - 1].end_ns, part.end_ns);
    part.run = at;
  }
  count_ = runs.size();
}

std::size_t Runs::count(std::optional<int> rank) const {
  if (!rank) return count_;
  return static_cast<std::size_t>(std::count_if(
      parts_.begin(), parts_.end(), [&](const RunPart& part) { return part.rank == *rank; }));
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
