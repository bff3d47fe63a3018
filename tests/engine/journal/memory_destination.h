// A destination that is no spool, and that does what a test says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/journal/destination.h"
#include "engine/journal/inspect.h"
#include "engine/journal/recover.h"
#include "engine/model/trace.h"

namespace sonde::testing {

class MemoryDestination : public journal::Destination {
 public:
  std::string_view name() const noexcept override { return "memory"; }
  bool contains(std::int64_t created_ns, const base::Id& batch_id) const override {
    return std::find(arrived_.begin(), arrived_.end(), std::pair(created_ns, batch_id)) !=
           arrived_.end();
  }
  base::Status write(const model::Batch& batch) override {
    if (base::Status status = before(); !status.ok()) return status;
    arrive(batch.created_ns, batch.batch_id);
    largest = std::max(largest, batch.record_count());
    for (const model::Span& span : batch.spans) take(batch, span);
    for (const model::Mark& mark : batch.marks) take(mark);
    after();
    return {};
  }
  // As if the batch of that name had been written.
  void arrive(std::int64_t created_ns, const base::Id& batch_id) {
    arrived_.emplace_back(created_ns, batch_id);
  }

  std::size_t batches() const { return arrived_.size(); }

  std::function<base::Status()> before = [] { return base::Status(); };
  std::function<void()> after = [] {};
  model::Batch all;         // that arrived, in its own memory
  std::size_t largest = 0;  // records of one batch

 private:
  void take(const model::Batch& batch, model::Span span) {
    span.name = all.arena.copy(span.name);
    span.attrs = all.arena.copy(span.attrs);
    const auto marks = batch.mark_ids.begin() + span.first_mark_id;
    span.first_mark_id = static_cast<std::uint32_t>(all.mark_ids.size());
    all.mark_ids.insert(all.mark_ids.end(), marks, marks + span.mark_id_count);
    all.spans.push_back(span);
  }
  void take(model::Mark mark) {
    mark.name = all.arena.copy(mark.name);
    mark.attrs = all.arena.copy(mark.attrs);
    mark.text = all.arena.copy(mark.text);
    all.marks.push_back(mark);
  }

  std::vector<std::pair<std::int64_t, base::Id>> arrived_;
};

// Recovers every journal of the run in `output_dir`.
inline model::Recovery recover_into(MemoryDestination& destination, const std::string& output_dir) {
  return journal::recover(output_dir + "/" + std::string(journal::kLiveFolder), {}, destination);
}

}  // namespace sonde::testing
