#include "engine/record/journal.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/record/block_pool.h"
#include "engine/record/bus_guard.h"
#include "engine/record/ends.h"
#include "engine/record/generation.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"
#include "engine/record/names.h"

namespace sonde::record {

Journal& Journal::instance() {
  static auto* journal = new Journal;
  return *journal;
}

void detail::make_journal() { Journal::instance(); }

Journal::Journal() {
  reset(kIdleBlocks);
  // Registered before anything can be recorded: two processes that share a key would give the same
  // ids to different spans.
  pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork_in_parent(); },
                 [] { instance().after_fork_in_child(); });
}

void Journal::reset(std::uint32_t usable_blocks) noexcept {
  blocks_.reset(usable_blocks);
  lanes_.reset();
  Header& head = header();
  std::memcpy(head.magic, kJournalMagic, sizeof head.magic);
  head.version = kJournalVersion;
  head.header_bytes = kHeaderBytes;
  head.pid = static_cast<std::uint32_t>(::getpid());
  head.anchor = base::read_anchor();
  head.key = base::random_id();
}

void Journal::begin_session(const Identity& identity) noexcept {
  Header& head = header();
  head.pid = static_cast<std::uint32_t>(::getpid());
  head.rank = identity.rank;
  head.local_rank = identity.local_rank;
  head.world_size = identity.world_size;
  head.anchor = base::read_anchor();
  head.clean = head.ended = 0;
  head.pending.store(0);
  head.lost_records = 0;
  head.alive_ns.store(head.anchor.monotonic_ns);
  if (::gethostname(head.host, sizeof head.host - 1) != 0) head.host[0] = '\0';
  blocks_.allow_all();
  begin_generation();
}

void Journal::leave_session() noexcept {
  detail::keep_provenance(present_provenance());
  begin_generation();
}

void Journal::end_session() noexcept {
  header().key = base::random_id();  // what comes later belongs to another session
  blocks_.allow_idle_only();
}

base::Status Journal::attach_file(const std::string& path) {
  const std::uint32_t blocks =
      std::clamp(blocks_.fresh() + kLowBlocks + kLowBlocks / 2, kFirstBlocks, kMaxBlocks);
  base::Status status = backing_.attach(path, blocks, blocks_);
  if (status.ok()) blocks_.set_file_end(blocks);
  looked_ns_ = base::monotonic_ns();
  ring_blocks_ = ring_blocks();
  return status;
}

void Journal::detach_file(bool remove) noexcept {
  if (backing_.detach(remove, blocks_)) blocks_.set_file_end(kMaxBlocks);
}

// Blocks that were ever used, without those that each thread takes when it begins: a crowd of new
// threads does not mean that much is recorded.
std::uint32_t Journal::ring_blocks() const noexcept {
  const std::uint32_t lanes = lane_count();
  return blocks_.fresh() - std::min(blocks_.fresh(), lanes + lanes / 4);
}

// True also if recording, at its present pace, would reach the end before the drain thread is sure
// to look again: on a busy machine that thread may be writing a batch, or waiting for its turn.
bool Journal::nears_file_end() noexcept {
  constexpr std::uint64_t kLookAgainNs = 100'000'000, kMomentNs = 1'000'000;
  constexpr std::uint32_t kSome = 16;  // fewer say nothing about the pace
  if (blocks_.file_end() == kMaxBlocks) return false;
  if (blocks_.nears_file_end()) return true;
  const std::uint64_t now = base::monotonic_ns();
  const std::uint64_t elapsed = std::max(now - std::exchange(looked_ns_, now), kMomentNs);
  const std::uint32_t used = ring_blocks();
  const std::uint32_t before = std::exchange(ring_blocks_, used);
  if (used < before + kSome) return false;
  return (used - before) * kLookAgainNs >= (blocks_.file_end() - blocks_.fresh()) * elapsed;
}

base::Status Journal::grow() {
  if (!backing_.on_file() || !nears_file_end()) return {};
  // No recording thread waits for the disk: until the file is larger, blocks beyond its end are
  // memory, and those in use stay memory. Free blocks are withheld only while memory is exchanged
  // for the file, which takes microseconds. The margin keeps blocks that are taken in the meantime
  // out of that range.
  base::Status status = backing_.enlarge_file();
  const std::uint32_t first = std::max(blocks_.file_end(), blocks_.fresh() + kLowBlocks / 2);
  if (status.ok() && first < kMaxBlocks) {
    if (blocks_.withhold(first)) status = backing_.map_from(first);
    blocks_.restore();
  }
  blocks_.set_file_end(kMaxBlocks);  // a disk that refused is not asked again
  return status;
}

void Journal::keep_warm() noexcept {
  if (!backing_.on_file()) return;
  Backing::warm_header();
  const std::uint32_t lanes = lane_count();
  for (std::uint32_t i = 0; i < lanes; i += 4) Backing::warm_block(lanes_.block_of(i));
  for (std::uint32_t i = 0; i < lanes; ++i) {
    // The owner moves on to other blocks at any time. Touching an old one does no harm.
    const std::uint32_t current = __atomic_load_n(&lane(i).block, __ATOMIC_RELAXED);
    if (current != 0 && current < kMaxBlocks) Backing::warm_block(current);
  }
}

void Journal::give_sign_of_life() noexcept {
  header().alive_ns.store(base::monotonic_ns(), std::memory_order_relaxed);
}

void Journal::say_ended(bool clean) noexcept {
  header().ended = 1;
  if (clean) header().clean = 1;
}

Lane* Journal::take_lane(LaneState state, std::uint64_t inherited_parent) noexcept {
  announce_first_lane();
  return lanes_.take(state, inherited_parent, blocks_);
}

std::uint64_t Journal::bus_errors() noexcept { return bus_error_count(); }
std::uint64_t Journal::lost_pages() noexcept { return lost_page_count(); }

void Journal::remember_session() noexcept {
  std::memcpy(remembered_.data(), static_cast<const void*>(&header()), sizeof(Header));
  has_remembered_ = true;
}

void Journal::start_over() noexcept {
  {
    const std::scoped_lock standstill(backing_.mutex(), detail::names_mutex(), lanes_.mutex());
    detail::keep_losses();
    backing_.clear(true);
    reset(kMaxBlocks);
    if (has_remembered_)
      std::memcpy(static_cast<void*>(&header()), remembered_.data(), sizeof(Header));
    header().block_count.store(0);
    lanes_.skip_sequences();
    detail::mirror_names();
    detail::
        void_lanes();  // with the lock: a thread that ends asks with it, then gives its lane back
  }
}

void Journal::before_fork() noexcept {
  backing_.mutex().lock();
  detail::names_mutex().lock();
  lanes_.mutex().lock();
  detail::lock_generations();
  forked_ = present_provenance();
}

void Journal::after_fork_in_parent() noexcept {
  detail::unlock_generations();
  lanes_.mutex().unlock();
  detail::names_mutex().unlock();
  backing_.mutex().unlock();
}

void Journal::after_fork_in_child() noexcept {
  backing_.clear(false);  // before anything is written: the memory is shared with the parent
  detail::unlock_generations();
  lanes_.mutex().unlock();
  on_first_lane_.store(nullptr);
  detail::forget_attaching();
  detail::forget_gate_holders();
  reset(kIdleBlocks);
  detail::mirror_names();
  detail::names_mutex().unlock();
  backing_.mutex().unlock();
  detail::forget_ends();
  detail::forget_losses();
  detail::keep_provenance(forked_);
  detail::void_lanes();
}

}  // namespace sonde::record
