// The epoch of a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "engine/base/id.h"
#include "engine/base/level_names.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::model {

// Spans of this name are the only ones that have snapshots.
inline constexpr std::string_view kEpochName = base::kEpoch;

struct Epoch {
  std::int64_t index = kNone;
  std::int64_t rank = kNone;
  std::size_t run = 0;      // 0: not known
  std::size_t order = 0;    // among those of its process in its run: an index may repeat
  std::size_t records = 0;  // that were added so far
  std::int64_t pid = kNone;
};

// Epochs by the id of their span.
class Epochs {
 public:
  Epochs() = default;
  // The epochs among the spans. The runs are finished and know their processes.
  Epochs(std::span<const Span> spans, const Runs& runs);

  Epoch* find(const base::Id& id);  // null if it is not there
  // For an id without a span, which was evicted or is not in the file that is read.
  Epoch& unknown(const base::Id& id);

 private:
  std::unordered_map<base::Id, Epoch, base::IdHash> by_id_;
  std::size_t unknown_ = 0;
};

}  // namespace sonde::model
