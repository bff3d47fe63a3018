#include "engine/session/line_sink.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/line/line.h"
#include "engine/model/level.h"
#include "engine/model/trace.h"
#include "engine/session/drainer.h"
#include "engine/session/line_outlet.h"
#include "engine/session/outgoing_batch.h"

namespace sonde::session {

namespace {

constexpr std::size_t kMaxMarks = 64;
constexpr std::size_t kMaxHeld = 10'000;
// Lines are held a little longer than spans may wait for the GPU: those hold up what was recorded
// after them.
constexpr std::uint64_t kMaxHeldNs = kGpuPatienceNs + 2'000'000'000;

}  // namespace

void LineSink::know(const OutgoingBatch& batch) {
  around_.forget();
  for (const model::Span& span : batch.open_scopes.spans) around_.know(span);
  for (const model::Span& span : batch.records.spans) around_.know(span);
}

void LineSink::add(const std::string& name, const std::string& line, const model::Place& place) {
  due_.resize(outlets_.size());
  for (std::size_t i = 0; i < outlets_.size(); ++i) {
    if (outlets_[i].filter.shows(name, place)) due_[i].push_back(line);
  }
}

void LineSink::settle_held() {
  for (Held& held : held_) around_.follow(held.place);
  std::erase_if(held_, [&](const Held& held) {
    if (held.place.settled()) add(held.name, held.line, held.place);
    return held.place.settled();
  });
}

void LineSink::accept(const std::shared_ptr<const OutgoingBatch>& batch) {
  for (const std::string& line : batch->announcements) {
    for (const LineOutlet& outlet : outlets_) outlet.write({prefix_ + line});
  }
  if (!batch->records.spans.empty()) write(*batch);
}

void LineSink::write(const OutgoingBatch& batch) {
  know(batch);
  settle_held();
  std::unordered_map<base::Id, std::vector<const model::Mark*>, base::IdHash> marks_of;
  for (const model::Batch* each : {&batch.earlier_marks, &batch.records}) {
    for (const model::Mark& mark : each->marks) marks_of[mark.span_id].push_back(&mark);
  }
  const std::uint64_t now = base::monotonic_ns();
  const auto everything = [](const LineOutlet& outlet) {
    return outlet.filter.level == model::Level::kAll;
  };
  const bool all = std::ranges::all_of(outlets_, everything);
  const bool parts = std::ranges::any_of(outlets_, everything);
  for (const model::Span& span : batch.records.spans) {
    model::Place place{span.parent_id};
    const bool fixed = all || model::level_is_fixed(span.name);
    if (fixed && !parts && model::level_of(span.name, place) == model::Level::kAll) continue;
    if (!fixed) around_.follow(place);
    std::span<const model::Mark* const> marks;
    if (const auto found = marks_of.find(span.id); found != marks_of.end()) marks = found->second;
    std::string line = prefix_;
    line::append_line(line, span, marks.last(std::min(marks.size(), kMaxMarks)));
    if (fixed || place.settled() || held_.size() >= kMaxHeld) {
      add(std::string(span.name), line, place);
    } else {
      held_.push_back({std::string(span.name), std::move(line), place, now, pass_});
    }
  }
  hand_out();
}

void LineSink::hand_out() {
  for (std::size_t i = 0; i < due_.size(); ++i) {
    // Taken out first: an outlet that throws does not get the same lines again.
    const std::vector<std::string> lines = std::exchange(due_[i], {});
    if (!lines.empty()) outlets_[i].write(lines);
  }
}

bool LineSink::flush(std::uint64_t, bool last) {
  const std::uint64_t now = base::monotonic_ns();
  while (!held_.empty()) {
    const Held& oldest = held_.front();
    if (!last && (oldest.pass == pass_ || now - oldest.since_ns < kMaxHeldNs)) break;
    add(oldest.name, oldest.line, oldest.place);
    held_.pop_front();
  }
  ++pass_;
  hand_out();
  return held_.empty();
}

}  // namespace sonde::session
