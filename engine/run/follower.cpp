#include "engine/run/follower.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/attr_names.h"
#include "engine/base/status.h"
#include "engine/model/level.h"
#include "engine/model/live.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/mark_keeper.h"
#include "engine/run/source.h"

namespace sonde::run {

namespace {

bool contains(std::span<const std::string> keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void sort_by_end(std::vector<model::LiveSpan>& spans) {
  std::ranges::stable_sort(spans, {}, [](const model::LiveSpan& each) { return each.span.end_ns; });
}

void sort_by_time(std::vector<model::Mark>& marks) {
  std::ranges::stable_sort(marks, {}, &model::Mark::ts_ns);
}

template <typename T>
void keep_last(std::vector<T>& items, std::size_t count) {
  if (items.size() > count)
    items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

Follower::Follower(Source& source, History history)
    : source_(source), history_(std::move(history)) {
  const std::span<const std::string> keys = source_.batches();
  before_.assign(keys.begin(), keys.end());
  seen_batches_.insert(keys.begin(), keys.end());
}

std::size_t Follower::running() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& entry) { return entry.second.running; }));
}

model::Look Follower::look() {
  model::Look out;
  text_ = std::make_shared<base::Arena>();
  const bool first = std::exchange(first_, false);
  // Journals before batches: what moves from one to the other in between is then seen twice instead
  // of not at all.
  if (refresh(out)) {
    look_at_processes(out);
    if (first && has_seen_any()) look_back(out);
    before_.clear();
    if (refresh(out)) {
      look_at_batches(out);
      seen_.end_look();
    }
  }
  for (model::LiveSpan& each : spans_) {
    around_.follow(each.place);
    each.api = api_of({each.span.rank, each.span.pid});
  }
  sort_by_end(spans_);
  sort_by_time(marks_);
  out.spans = std::exchange(spans_, {});
  out.marks = std::exchange(marks_, {});
  out.around = std::exchange(around_, {});
  out.text = text_;
  out.several_ranks = ranks_.size() > 1;
  tell_ends(out);
  return out;
}

// False: nothing can be read now. If the source is gone, its processes may go on, but they cannot
// be followed any more.
bool Follower::refresh(model::Look& out) {
  const base::Status status = source_.refresh();
  note(status, out);
  if (trouble_of(status) == Trouble::kGone) {
    out.gone = true;
    for (auto& [key, process] : processes_) {
      process.running = false;
      process.end_is_told = true;
    }
  }
  return status.ok();
}

void Follower::note(const base::Status& status, model::Look& out) {
  if (status.ok() || trouble_of(status) == Trouble::kGone) return;
  if (told_.insert(status.text()).second) out.problems.push_back(status.text());
}

// Takes the newest of the batches that were stored before the first look, the oldest of them first.
void Follower::look_back(model::Look& out) {
  constexpr std::size_t kMostBatches = 32;
  std::deque<model::Batch> batches;
  std::size_t spans = 0;
  for (auto key = before_.rbegin(); key != before_.rend(); ++key) {
    if (spans >= history_.spans || batches.size() >= kMostBatches) break;
    if (!read(*key, batches.emplace_front(), out)) continue;
    // The scopes around a span are in a later batch, which was read before this one, or still open.
    for (const model::Span& span : batches.front().spans) around_.know(span);
    for (const model::Span& span : batches.front().spans) {
      if (is_wanted(span)) ++spans;
    }
  }
  std::vector<model::LiveSpan> fresh_spans = std::exchange(spans_, {});
  std::vector<model::Mark> fresh_marks = std::exchange(marks_, {});
  for (const model::Batch& batch : batches) take(batch);
  keep_newest();
  spans_.insert(spans_.end(), std::make_move_iterator(fresh_spans.begin()),
                std::make_move_iterator(fresh_spans.end()));
  marks_.insert(marks_.end(), fresh_marks.begin(), fresh_marks.end());
}

bool Follower::is_wanted(const model::Span& span) const {
  if (!history_.wanted) return true;
  model::Place place{span.parent_id};
  around_.follow(place);
  return history_.wanted(span, place);
}

// Of what was stored before the first look.
void Follower::keep_newest() {
  std::erase_if(spans_, [&](const model::LiveSpan& each) { return !is_wanted(each.span); });
  sort_by_end(spans_);
  keep_last(spans_, history_.spans);
  sort_by_time(marks_);
  keep_last(marks_, history_.spans);
}

void Follower::look_at_processes(model::Look& out) {
  const std::span<const std::string> keys = source_.processes();
  for (auto& [key, process] : processes_) process.running = process.running && contains(keys, key);
  for (const std::string& key : keys) look_at(key, out);
}

void Follower::look_at(const std::string& key, model::Look& out) {
  Process process;
  const base::Status status = source_.inspect(key, process);
  note(status, out);
  if (!status.ok()) return;
  const model::ProcessState& state = process.state;
  const bool alive = state.fate == model::Fate::kRunning;
  const bool is_new = !processes_.contains(key);
  if (!alive && is_new) return;  // dead before the first look: that is for the autopsy
  Followed& followed = processes_[key];
  for (const model::OpenScope& open : state.open) {
    around_.know(open.span);
    if (!open.session) continue;
    followed.session = open.span.id;
    know_api({state.rank, state.pid}, open.span);
  }
  followed.running = alive;
  followed.died = followed.died || state.fate == model::Fate::kDead;
  followed.as_event = {model::ProcessEvent::Kind::kBegan, state.pid, state.rank,
                       state.seen_ns - state.started_ns, api_of({state.rank, state.pid})};
  if (is_new) out.began.push_back(followed.as_event);
  ranks_.insert(state.rank);
  take(process.records);
  out.processes.push_back(std::move(process.state));
  out.arenas.push_back(std::move(process.records.arena));
}

void Follower::tell_ends(model::Look& out) {
  for (auto& [key, process] : processes_) {
    if (process.running || std::exchange(process.end_is_told, true)) continue;
    out.ended.push_back(process.as_event);
    out.ended.back().kind =
        process.died ? model::ProcessEvent::Kind::kDied : model::ProcessEvent::Kind::kEnded;
  }
}

void Follower::look_at_batches(model::Look& out) {
  const std::span<const std::string> keys = source_.batches();
  model::Batch batch;
  for (const std::string& key : keys) {
    if (!seen_batches_.contains(key) && read(key, batch, out)) take(batch);
  }
  // Batches get evicted; forgetting those that are gone keeps the set small.
  if (seen_batches_.size() <= keys.size()) return;
  const std::set<std::string_view> there(keys.begin(), keys.end());
  std::erase_if(seen_batches_, [&](const std::string& key) { return !there.contains(key); });
}

// Marks the batch as seen, unless reading it may succeed the next time. It is empty after an error.
bool Follower::read(const std::string& key, model::Batch& batch, model::Look& out) {
  const base::Status status = source_.read(key, Detail::kSpansAndMarks, batch);
  note(status, out);
  if (trouble_of(status) == Trouble::kPassing) {
    seen_batches_.erase(key);
  } else {
    seen_batches_.insert(key);
  }
  if (!status.ok()) batch.clear();
  return status.ok();
}

void Follower::take(const model::Batch& batch) {
  for (const model::Mark& mark : batch.marks) {
    if (seen_.add(mark.id)) add_mark(mark);
  }
  for (const model::Span& span : batch.spans) {
    around_.know(span);
    if (!seen_.add(span.id)) continue;
    ranks_.insert(span.rank);
    if (span.is_session()) know_session(span);
    add_span(span);
  }
}

void Follower::add_span(const model::Span& span) {
  MarkKeeper::Taken taken = keeper_.take(span.id, *text_);
  model::LiveSpan& added = spans_.emplace_back(
      model::LiveSpan{span, std::move(taken.marks), {span.parent_id}, {}, taken.dropped, text_});
  added.span.name = text_->copy(span.name);
  added.span.attrs = text_->copy(span.attrs);
}

void Follower::add_mark(const model::Mark& mark) {
  if (mark.span_id) keeper_.keep(mark);
  model::Mark& added = marks_.emplace_back(mark);
  added.name = text_->copy(mark.name);
  added.attrs = text_->copy(mark.attrs);
  added.text = text_->copy(mark.text);
}

// A session that recovery closed: the next session in the directory has moved the journal of a dead
// process, maybe before it was looked at again.
void Follower::know_session(const model::Span& session) {
  know_api({session.rank, session.pid}, session);
  if (session.closed_by() != base::kClosedByDeath) return;
  for (auto& [key, process] : processes_) {
    if (process.session == session.id) process.died = true;
  }
}

void Follower::know_api(const Owner& owner, const model::Span& session) {
  newest_api_ = apis_[owner] = model::api_of(session);
}

// A process without a known session most likely uses the same API as the others.
const std::string& Follower::api_of(const Owner& owner) const {
  const auto found = apis_.find(owner);
  return found == apis_.end() ? newest_api_ : found->second;
}

}  // namespace sonde::run
