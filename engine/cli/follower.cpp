#include "engine/cli/follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/model/line.h"

namespace sonde::cli {

bool RecentIds::add(const base::Id& id) {
  if (!ids_.insert(id).second) return false;
  order_.push_back(id);
  if (order_.size() > kKept) {
    ids_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

Follower::Follower(Place place, std::size_t history) : place_(std::move(place)), history_(history) {
  seen_files_.insert(place_.files.begin(), place_.files.end());
}

std::size_t Follower::running() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& entry) { return entry.second.running; }));
}

std::vector<std::string> Follower::poll() {
  lines_.clear();
  // Journals before files: what moves from one to the other in between is seen twice, not never.
  if (refresh(place_).ok()) {
    look_at_journals();
    if (first_ && !processes_.empty()) look_back();
    if (refresh(place_).ok()) look_at_files();
  }
  first_ = false;
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.end_ns < b.end_ns; });
  std::vector<std::string> out;
  for (const Line& line : lines_) {
    // Only now is it known how many ranks there are.
    out.push_back(ranks_.size() > 1 ? fmt::format("rank {} {}", line.rank, line.text) : line.text);
  }
  return out;
}

// The newest of the files that were there before we came, oldest of them first.
void Follower::look_back() {
  constexpr std::size_t kMostFiles = 32;
  std::deque<model::Batch> batches;
  std::size_t spans = 0;
  for (auto path = seen_files_.rbegin(); path != seen_files_.rend(); ++path) {
    if (spans >= history_ || batches.size() >= kMostFiles) break;
    if (!reader_.read_file(*path, batches.emplace_front()).ok()) batches.front().clear();
    spans += batches.front().spans.size();
  }
  std::vector<Line> fresh = std::move(lines_);
  lines_.clear();
  for (const model::Batch& batch : batches) take(batch);
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.end_ns < b.end_ns; });
  if (lines_.size() > history_)
    lines_.erase(lines_.begin(), lines_.end() - static_cast<std::ptrdiff_t>(history_));
  lines_.insert(lines_.end(), std::make_move_iterator(fresh.begin()),
                std::make_move_iterator(fresh.end()));
}

void Follower::look_at_journals() {
  for (auto& [path, process] : processes_) {
    const bool there =
        std::find(place_.journals.begin(), place_.journals.end(), path) != place_.journals.end();
    process.running = process.running && there;
  }
  for (const std::string& path : place_.journals) {
    spool::JournalReport journal;
    if (!spool::inspect_journal(path, journal).ok()) continue;
    const auto known = processes_.find(path);
    if (!journal.alive && known == processes_.end())
      continue;  // dead before we came: the autopsy's
    Process& process = processes_[path];
    process = {journal.pid, journal.rank, journal.alive, !journal.alive && !journal.ended};
    ranks_.insert(journal.rank);
    take(journal.records);
  }
}

void Follower::look_at_files() {
  model::Batch batch;
  for (const std::string& path : place_.files) {
    if (!seen_files_.insert(path).second) continue;
    if (reader_.read_file(path, batch).ok()) take(batch);
  }
  // The spool may be cleaned while we look; forgetting what is gone keeps the set small.
  std::erase_if(seen_files_, [&](const std::string& path) {
    return !std::binary_search(place_.files.begin(), place_.files.end(), path);
  });
}

void Follower::take(const model::Batch& batch) {
  for (const model::Mark& mark : batch.marks) {
    if (mark.span_id && seen_.add(mark.id)) keep_mark(mark);
  }
  for (const model::Span& span : batch.spans) {
    if (!seen_.add(span.id)) continue;
    ranks_.insert(span.rank);
    add_line(span);
  }
}

void Follower::keep_mark(const model::Mark& mark) {
  constexpr std::size_t kPerSpan = 64, kInAll = 100'000;
  auto& kept = marks_[mark.span_id];
  if (kept.size() >= kPerSpan) {
    kept.pop_front();
    --kept_marks_;
  }
  if (kept_marks_ >= kInAll) {  // of spans that never close here; better to start over than to grow
    marks_.clear();
    kept_marks_ = 0;
    return;
  }
  kept.push_back({mark, std::string(mark.name), std::string(mark.text)});
  ++kept_marks_;
}

void Follower::add_line(const model::Span& span) {
  std::vector<const model::Mark*> marks;
  const auto found = marks_.find(span.id);
  if (found != marks_.end()) {
    for (OwnedMark& owned : found->second) {
      owned.mark.name = owned.name;
      owned.mark.text = owned.text;
      marks.push_back(&owned.mark);
    }
  }
  Line line{span.end_ns, span.rank, "[cirron] "};
  model::append_line(line.text, span, marks);
  line.text += '\n';
  lines_.push_back(std::move(line));
  if (found != marks_.end()) {
    kept_marks_ -= found->second.size();
    marks_.erase(found);
  }
}

}  // namespace sonde::cli
