// Turns the records of a journal's rings into trace values, for the drain thread of a running
// session and for readers of another process's journal. Checks every offset and length that it
// reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/json_writer.h"
#include "engine/journal/mark_lists.h"
#include "engine/model/trace.h"
#include "engine/record/layout.h"

namespace sonde::journal {

// A journal in memory: our own, or a mapped file.
struct View {
  const std::byte* base = nullptr;
  std::uint32_t blocks = 0;  // how many may be looked at

  const record::Header& header() const { return *reinterpret_cast<const record::Header*>(base); }
  const record::BlockHeader* block(std::uint32_t number) const {
    if (number == 0 || number >= blocks) return nullptr;
    return reinterpret_cast<const record::BlockHeader*>(base + record::kBlocksOffset +
                                                        std::size_t{number} * record::kBlockBytes);
  }
  // The text of an interned name; "" if no name has this id.
  std::string_view name(std::uint32_t id) const;
  // Every lane in the file, in order of their numbers.
  std::vector<const record::Lane*> lanes() const;
};

// What to do with a span whose place in the tree is not certain yet.
enum class Uncertain : std::uint8_t {
  kRead,    // read it as it is
  kWait,    // read up to there, and go on from there another time
  kSettle,  // read it: its place is certain from now on
};

// A span with GPU time: the events that begin and end it on the device (0: none), when it ended on
// the host's monotonic clock, and its interned name.
struct GpuEvents {
  std::uint32_t start = 0, end = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t name = 0;
};

// What only the process that recorded the spans can answer: how long the GPU took between two
// events, and how long to wait for a place that is not certain.
class OwnSpans {
 public:
  virtual ~OwnSpans() = default;
  // Asked for a span that ended then (monotonic) and whose place is not certain.
  virtual Uncertain uncertain(std::uint64_t end_ns) = 0;
  // Fills in the GPU time. False while the device has not reached the end of the span. Called until
  // it returns true, which also gives the events back.
  virtual bool resolve(const GpuEvents& events, model::Span& span) = 0;
};

class RingReader {
 public:
  explicit RingReader(View view, OwnSpans* own = nullptr) : view_(view), own_(own) {}

  // Appends records of `lane` from `cursor` on to `out`, at most `limit` of them and none from
  // position `until` on, and moves the cursor. Blocks that were read to their end are appended to
  // `finished`. True when the limit was reached. Stops at a span whose place or GPU time is not
  // known yet; the next call goes on there.
  bool read(const record::Lane& lane, record::RingTail& cursor, std::size_t limit,
            model::Batch& out, std::vector<std::uint32_t>* finished,
            std::uint64_t until = ~std::uint64_t{0});

  // A scope that is open, as a span; text is copied into the arena.
  model::Span open_span(const record::OpenScope& scope, std::string_view text,
                        std::uint64_t thread_id, base::Arena& arena) const;

  MarkLists& mark_lists() { return marks_; }
  // Any thread.
  std::uint64_t damaged() const { return damaged_.load(std::memory_order_relaxed); }
  // Whether a span had to wait since the last call.
  bool take_waited() { return std::exchange(waited_, false); }

 private:
  bool may_read(record::SpanRecord& in_ring);
  bool lose_rest(record::RingTail& cursor, std::uint64_t head);
  std::uint32_t decode_whole(const std::byte* slot, std::uint32_t room, std::uint64_t& thread_id,
                             model::Batch& out);
  std::uint32_t decode(const std::byte* slot, std::uint32_t room, std::uint64_t& thread_id,
                       model::Batch& out);
  bool add_span(const record::SpanRecord& record, const char* text, std::uint64_t thread_id,
                model::Batch& out);
  void add_mark(const record::MarkRecord& record, const char* text, model::Batch& out);

  View view_;
  MarkLists marks_;
  OwnSpans* own_;
  base::JsonWriter attrs_;  // of the span that is being added
  std::atomic<std::uint64_t> damaged_{0};
  bool waited_ = false;
};

// The attributes of a span: fixed and given ones, and those that the record holds as numbers.
// `scratch` is where they are put together.
std::string_view join_attrs(base::JsonWriter& scratch, base::Arena& arena, std::string_view fixed,
                            std::string_view given, bool has_data_load, std::uint64_t data_load_ns,
                            record::ClosedBy closed_by);

}  // namespace sonde::journal
