// The values that the sinks and all readers work on. They are views: text lies in the arena of the
// batch (or in the name table, which lives as long as the process), so a span is cheap to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/attr_names.h"
#include "engine/base/id.h"
#include "engine/base/json_members.h"

namespace sonde::model {

// Version of the spool format (docs/formats/spool.md) that we write, and the newest that we read.
inline constexpr int kSchemaVersion = 1;

// Stands for null in an optional integer field.
inline constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();

struct Span {
  base::Id id;
  base::Id parent_id;  // null id: none
  std::string_view name;
  std::string_view attrs;  // the members of the JSON object, without its braces
  std::int64_t index = kNone;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = kNone;  // kNone: still open
  std::int64_t cpu_ns = kNone;
  std::int64_t gpu_ns = kNone;
  std::int64_t memory_peak_bytes = kNone;
  std::uint64_t thread_id = 0;
  std::int32_t pid = 0;
  std::int32_t rank = 0;
  std::uint32_t first_mark_id = 0;  // into Batch::mark_ids
  std::uint32_t mark_id_count = 0;
  std::int64_t seen_ns = kNone;  // while open: until when that is known
  bool left = false;             // open, and its process is gone

  bool open() const noexcept { return end_ns == kNone; }
  // The root span of a process. Each API that a session can be started from has its own name for
  // it, "<api>.session". A scope of the program may have such a name too; it has no pid.
  bool is_session() const noexcept {
    return !parent_id && name.ends_with(".session") && attr(base::kPidAttr);
  }
  // What closed it when its own code did not: "parent", "death", ...; "" otherwise.
  std::string_view closed_by() const noexcept { return attr(base::kClosedByAttr).plain_text(); }
  // True where the duration is that of the host, which did not wait for the device, so no share is
  // computed from it. The device's time is gpu_ns, where that is known.
  bool dispatched() const noexcept { return attr(base::kTimingAttr).is(base::kDispatch); }
  // The attribute of that name; an empty value where there is none.
  base::JsonValue attr(std::string_view name) const noexcept {
    return base::find_member(attrs, name);
  }
  // The end; while open, the largest number.
  std::int64_t end_or_never_ns() const noexcept {
    return open() ? std::numeric_limits<std::int64_t>::max() : end_ns;
  }
  // kNone while open; never negative, also where a damaged file has the times wrong.
  std::int64_t duration_ns() const noexcept { return time_until(end_ns); }
  // As duration_ns, but for an open span how long it has been open so far; kNone if that is not
  // known.
  std::int64_t length_ns() const noexcept { return time_until(open() ? seen_ns : end_ns); }

 private:
  std::int64_t time_until(std::int64_t moment) const noexcept {
    if (moment == kNone) return kNone;
    if (moment <= start_ns) return 0;
    std::int64_t duration = 0;
    const bool overflow = __builtin_sub_overflow(moment, start_ns, &duration);
    return overflow ? std::numeric_limits<std::int64_t>::max() : duration;
  }
};

// The API that a session was started from: the first part of its root span's name.
inline std::string_view api_of(const Span& session) noexcept {
  return session.name.substr(0, session.name.rfind('.'));
}

enum class ValueType : std::uint8_t { kFloat, kInt, kString, kBool };

struct Mark {
  base::Id id;
  base::Id span_id;  // null id: written as "root"
  std::string_view name;
  std::string_view attrs;  // as in Span
  std::string_view text;   // kString: the value; kInt too large for 64 bits: its decimal digits
  std::int64_t ts_ns = 0;
  double real = 0;           // kFloat
  std::int64_t integer = 0;  // kInt, kBool
  ValueType type = ValueType::kFloat;
  bool summary = false;
};

// The record of one tensor. Most code only hands it on as the JSON that it is.
struct Snapshot {
  base::Id id;
  base::Id span_id;
  std::string_view json;  // the whole object as the spool has it
  // What else it says beside the statistics, where the reader was asked for it.
  std::int64_t ts_ns = kNone;
  std::string_view mode;
  std::string_view blob_uri;  // empty: the values were not stored
  // The histogram: into Batch::edges, one more than it has bins, and Batch::bins.
  std::uint32_t first_edge = 0, edge_count = 0;
  std::uint32_t first_bin = 0, bin_count = 0;
};

// What a snapshot says, for code that looks inside.
struct TensorStats {
  std::string_view name;
  std::string_view shape;  // as it is written, without its brackets
  std::string_view dtype;
  std::string_view unavailable;  // why there are no statistics
  bool known = false;            // false: there are none, and none of the numbers below
  // Over the finite values; all 0 where there are none. Older writers of the format took them over
  // all values, so in their files these may be NaN or infinite.
  double mean = 0, std = 0, min = 0, max = 0, norm = 0;
  // kNone: not counted, as in files of another SDK.
  std::int64_t count = kNone, nan_count = kNone, inf_count = kNone, zero_count = kNone;

  bool gradient() const noexcept { return name.ends_with(".grad"); }
};

// What a process hands over at once: one file of a spool, and what every other output gets.
struct Batch {
  base::Id batch_id;
  std::int64_t created_ns = 0;
  std::string_view sdk_version;
  std::vector<Span> spans;
  std::vector<Mark> marks;
  std::vector<Snapshot> snapshots;
  std::vector<TensorStats> tensors;  // one for each snapshot, where the reader was asked for them
  std::vector<double> edges;         // of the histograms
  std::vector<std::int64_t> bins;    // how many values each holds
  std::vector<base::Id> mark_ids;
  // Where the marks were asked for as text: JSON lists, at first_mark_id of each span that has
  // some.
  std::vector<std::string_view> mark_lists;
  base::Arena arena;

  bool empty() const noexcept { return spans.empty() && marks.empty() && snapshots.empty(); }
  std::size_t record_count() const noexcept {
    return spans.size() + marks.size() + snapshots.size();
  }
  void clear() noexcept {
    batch_id = {};
    created_ns = 0;
    sdk_version = {};
    spans.clear();
    marks.clear();
    snapshots.clear();
    tensors.clear();
    edges.clear();
    bins.clear();
    mark_ids.clear();
    mark_lists.clear();
    arena.clear();
  }
};

}  // namespace sonde::model
