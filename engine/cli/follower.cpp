#include "engine/cli/follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

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

Follower::Follower(Place place, std::size_t history, model::LineFilter filter)
    : place_(std::move(place)), history_(history), filter_(std::move(filter)) {
  seen_files_.insert(place_.files.begin(), place_.files.end());
}

std::size_t Follower::running() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& entry) { return entry.second.running; }));
}

std::string Follower::text_of(const Line& line) const {
  // Only now is it known how many ranks there are.
  return ranks_.size() > 1 ? fmt::format("[cirron] rank {} {}", line.rank, line.text)
                           : "[cirron] " + line.text;
}

// Keeps the lines that are wanted. One of which that is not known yet waits, but not for long: what
// it waits for may have been lost.
void Follower::choose(std::vector<Line>& lines) {
  constexpr std::uint64_t kPatience = 4;  // polls
  std::vector<Line> all = std::exchange(lines, {});
  for (Line& line : all) {
    around_.follow(line.place);
    const bool decided = line.place.settled() || filter_.level == model::Level::kAll ||
                         model::level_is_fixed(line.name);
    if (!decided && polls_ - line.poll < kPatience) {
      waiting_.push_back(std::move(line));
    } else if (filter_.shows(line.name, line.place)) {
      lines.push_back(std::move(line));
    }
  }
}

std::vector<std::string> Follower::poll() {
  lines_ = std::exchange(waiting_, {});
  around_.forget();
  ++polls_;
  // Journals before files: what moves from one to the other in between is seen twice, not never.
  if (refresh(place_).ok()) {
    look_at_journals();
    if (first_ && !processes_.empty()) look_back();
    if (refresh(place_).ok()) look_at_files();
  }
  first_ = false;
  choose(lines_);
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.end_ns < b.end_ns; });
  std::vector<std::string> out;
  for (const Line& line : lines_) out.push_back(text_of(line));
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
    // What is around a span is in a later file, which was read before this one, or still open.
    for (const model::Span& span : batches.front().spans) around_.know(span);
    for (const model::Span& span : batches.front().spans) {
      model::Place place{span.parent_id};
      around_.follow(place);
      if (filter_.shows(span.name, place)) ++spans;
    }
  }
  std::vector<Line> fresh = std::move(lines_);
  lines_.clear();
  for (const model::Batch& batch : batches) take(batch);
  choose(lines_);
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
    process = {journal.pid, journal.rank, journal.alive, !journal.alive && !journal.ended,
               journal.seen_ns - journal.started_ns};
    ranks_.insert(journal.rank);
    for (const spool::OpenScopeView& open : journal.open) around_.know(open.span);
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
    around_.know(span);
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
  Line line{span.end_ns, span.rank, {}, std::string(span.name), {span.parent_id}, polls_};
  model::append_line(line.text, span, marks);
  line.text += '\n';
  lines_.push_back(std::move(line));
  if (found != marks_.end()) {
    kept_marks_ -= found->second.size();
    marks_.erase(found);
  }
}

}  // namespace sonde::cli
