// Reads what the threads of this process record, without a session.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/journal/ring_reader.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/mark.h"
#include "engine/record/scope.h"

namespace sonde::testing {

class RingTap {
 public:
  // Sees what is recorded from now on; with `from_start` also what the rings hold already.
  explicit RingTap(bool from_start = false)
      : view_{reinterpret_cast<const std::byte*>(&record::Journal::instance().header()),
              record::kMaxBlocks},
        reader_(view_) {
    if (from_start) return;
    model::Batch before;
    read(before);
  }

  void read(model::Batch& out, std::vector<std::uint32_t>* finished = nullptr) {
    record::Journal& journal = record::Journal::instance();
    const std::uint32_t lanes = journal.lane_count();  // others may be adding some
    cursors_.resize(std::max<std::size_t>(cursors_.size(), lanes));
    for (std::uint32_t i = 0; i < lanes; ++i) {
      reader_.read(journal.lane(i), cursors_[i], ~std::size_t{0}, out, finished);
    }
  }
  model::Batch take() {
    model::Batch batch;
    read(batch);
    return batch;
  }
  std::uint64_t damaged() const { return reader_.damaged(); }
  base::Id id_of(std::uint64_t sequence) const {
    return base::make_id(view_.header().key, sequence);
  }

 private:
  journal::View view_;
  journal::RingReader reader_;
  std::vector<record::RingTail> cursors_;
};

inline std::vector<std::string> names_of(const std::vector<model::Span>& spans) {
  std::vector<std::string> names;
  for (const model::Span& span : spans) names.emplace_back(span.name);
  return names;
}

inline const model::Span* find_span(const std::vector<model::Span>& spans, std::string_view name) {
  const auto found = std::find_if(spans.begin(), spans.end(),
                                  [&](const model::Span& span) { return span.name == name; });
  return found == spans.end() ? nullptr : &*found;
}

// Opens and closes on this thread, the way the binding does.
inline record::ScopeHandle open(std::string_view name, record::ScopeStart start = {}) {
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return {};
  start.name = record::intern(name);
  return record::open_scope(*thread, *thread->lane, start);
}

inline bool close(const record::ScopeHandle& handle, const record::ScopeEnd& end = {}) {
  record::ThreadState* thread = record::this_thread();
  return thread != nullptr && handle &&
         record::close_scope(*thread, handle, end, base::monotonic_ns());
}

inline std::uint64_t mark(std::string_view name, double value) {
  record::ThreadState* thread = record::this_thread();
  return thread == nullptr ? 0
                           : record::write_mark(*thread, *thread->lane,
                                                {.name = record::intern(name), .real = value});
}

}  // namespace sonde::testing
