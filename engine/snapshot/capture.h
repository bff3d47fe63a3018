// What was captured of one model at one moment, on its way to the spool: a record per tensor, all
// with the same span and time. Work that outlasts the call that captures (a pass on a GPU, a file)
// comes along as a Pending, which the drain thread polls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/snapshot_record.h"
#include "engine/snapshot/statistics.h"

namespace sonde::snapshot {

enum class Kind : std::uint8_t { kWeights, kGradients };

constexpr std::string_view kind_name(Kind kind) noexcept {
  return kind == Kind::kWeights ? "weights" : "gradients";
}

// What every capture of a tensor has in common.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string attrs;  // JSON members, may be empty
};
using Catalogue = std::vector<Entry>;

struct Capture;

// Work that is still under way. Only the drain thread calls it.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool ready() noexcept = 0;
  // Puts the result into the capture. Called once: when it is ready or, with `give_up`, when there
  // is no more time to wait; the capture then gets what there is.
  virtual void complete(Capture& capture, bool give_up) noexcept = 0;
};

struct Capture {
  base::Id span_id;
  std::int64_t ts_ns = 0;  // wall clock
  Kind kind = Kind::kWeights;
  std::optional<std::int64_t> epoch, step;  // none: not known
  std::shared_ptr<const Catalogue> catalogue;
  std::vector<std::optional<Statistics>> statistics;  // one per entry; none: "stats" is null
  std::string attrs;                                  // JSON members for every record
  std::string mode = "stats";                         // of the records that are in a blob
  std::string blob_uri;                               // empty: no blob
  std::vector<bool> in_blob;                          // one per entry; empty: none
  std::unique_ptr<Pending> pending;                   // the statistics
  std::unique_ptr<Pending> blob;                      // the file; the engine sets it

  std::size_t size() const noexcept { return catalogue ? catalogue->size() : 0; }
};

// The first tensor with a value that is not finite; size() where there is none.
std::size_t first_non_finite(const Capture& capture) noexcept;

// What the spool gets of one tensor. Points into the capture.
model::SnapshotRecord record_of(const Capture& capture, std::size_t tensor, const base::Id& id);

}  // namespace sonde::snapshot
