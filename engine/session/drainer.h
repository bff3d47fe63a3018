// Takes records out of the rings of this process. One per process, guarded by the engine's drain
// lock. take_waited() and waiting() need no lock: they belong to the draining thread
// (drain_loop.h), the only one that takes records out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/journal/ring_reader.h"
#include "engine/model/trace.h"
#include "engine/record/ring.h"
#include "engine/session/moved.h"

namespace sonde::session {

// Spans whose GPU time does not come within this time are written without it; those whose place is
// not certain by then stay where they are.
inline constexpr std::uint64_t kGpuPatienceNs = 10'000'000'000;

class Waiting : public journal::OwnSpans {
 public:
  journal::Uncertain uncertain(std::uint64_t end_ns) override {
    return waits_for(end_ns) ? journal::Uncertain::kWait : journal::Uncertain::kSettle;
  }
  bool resolve(const journal::GpuEvents& events, model::Span& span) override;
  void give_up(bool now) { give_up_ = now; }

 private:
  bool waits_for(std::uint64_t end_ns) const;

  bool give_up_ = false;
};

class Drainer {
 public:
  Drainer();

  // Fixes how far collect goes: to what is recorded now. So a pass ends, however fast other threads
  // record.
  void begin_pass();
  // Appends up to `limit` records of this pass; true when some are left.
  bool collect(std::size_t limit, model::Batch& batch, Moved& moved);
  // Whether the last pass ended early for lack of memory.
  bool was_cut_short() const noexcept { return cut_short_; }
  // Whether the rings hold something that no pass has read.
  bool has_unread() const;

  // Appends what the rings hold and leaves it there: the next pass finds it again.
  void peek(model::Batch& batch) const;

  // Appends the scopes that are open now as they are, the session first. Other threads may be
  // recording: what they change at this moment is shown before or after, or left out.
  void append_open(model::Batch& batch) const;

  // The journal started over, so the cursors start over too.
  void start_over() {
    cursors_.clear();
    goals_.clear();
  }
  // At the end of a session, while no other thread records: drained rings give their last block
  // back, so that the next session does not start with the size this one grew to.
  void release_blocks();

  std::uint64_t damaged() const { return reader_.damaged(); }
  // Whether the last passes left spans in the rings that wait for the GPU.
  bool take_waited() { return reader_.take_waited(); }
  Waiting& waiting() { return waiting_; }

 private:
  journal::View view_;
  Waiting waiting_;
  journal::RingReader reader_;
  std::vector<record::RingTail> cursors_;
  std::vector<std::uint64_t> goals_;  // of this pass, a position per lane
  bool cut_short_ = false;
};

}  // namespace sonde::session
