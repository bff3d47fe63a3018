// Marks grouped by their span, in order of time.
#pragma once

#include <span>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::model {

// Points at the marks it was built from.
class MarkIndex {
 public:
  MarkIndex() = default;
  explicit MarkIndex(std::span<const Mark> marks);
  // The marks of this span in order of time. They had to be sorted, because journals are read
  // before stored batches.
  std::span<const Mark* const> of(const base::Id& span) const;

 private:
  std::vector<const Mark*> marks_;  // sorted by span and time
};

}  // namespace sonde::model
