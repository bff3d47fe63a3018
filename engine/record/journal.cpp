#include "engine/record/journal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <vector>

#include "engine/base/placement.h"
#include "engine/record/bus_guard.h"
#include "engine/record/ends.h"
#include "engine/record/names.h"
#include "engine/record/peek.h"

namespace sonde::record {

namespace detail {
SONDE_HOT_DATA std::byte* g_base = nullptr;
}

namespace {

constexpr std::size_t kRangeBytes = kBlocksOffset + std::size_t{kMaxBlocks} * kBlockBytes;

constexpr std::size_t bytes_for(std::uint32_t blocks) {
  return kBlocksOffset + std::size_t{blocks} * kBlockBytes;
}

// Exclusive lock on the open file description: the kernel drops it when the process is gone,
// however it went, and (unlike a pid) it means the same in every container that sees the file.
base::Status lock_file(int fd, const std::string& path) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  // A file system without locks (some network mounts) leaves the journal unprotected but usable.
  if (::fcntl(fd, F_OFD_SETLK, &lock) != 0 && errno != ENOLCK && errno != EOPNOTSUPP &&
      errno != EINVAL) {
    return base::Status::from_errno("cannot lock " + path);
  }
  return {};
}

// Real blocks on the disk, not a hole: a hole would turn a full disk into SIGBUS at the first
// store.
base::Status allocate(int fd, std::size_t from, std::size_t to, const std::string& path) {
  if (::fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(to - from)) == 0) return {};
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    return base::Status::from_errno("cannot allocate " + path);
  }
  const std::vector<char> zeros(64 * 1024);
  for (std::size_t at = from; at < to;) {
    const ssize_t done =
        ::pwrite(fd, zeros.data(), std::min(zeros.size(), to - at), static_cast<off_t>(at));
    if (done <= 0) return base::Status::from_errno("cannot allocate " + path);
    at += static_cast<std::size_t>(done);
  }
  return {};
}

// New blocks read as zeros, so there is nothing to read ahead; a page that is touched would bring
// megabytes of zeroed ones along.
void expect_no_reading(void* from, std::size_t bytes) { ::madvise(from, bytes, MADV_RANDOM); }

// Touches the pages now, so that no recording thread has to fault them in.
void populate(std::byte* from, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(from, bytes, MADV_POPULATE_WRITE);
#else
  (void)from;
  (void)bytes;
#endif
}

}  // namespace

// Lanes of threads that ended, ready for the next one.
struct Journal::Lanes {
  std::mutex mutex;
  std::uint32_t free[kMaxLanes];
  std::uint32_t free_count = 0;
};

Journal& Journal::instance() {
  static auto* journal = new Journal;
  return *journal;
}

Journal::Journal() : lanes_(new Lanes) {
  void* range = ::mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  detail::g_base = static_cast<std::byte*>(range);
  reset_pool(kIdleBlocks);
  // From the first name on: two processes that share a key would give the same ids to different
  // spans.
  pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork_in_parent(); },
                 [] { instance().after_fork_in_child(); });
}

void Journal::reset_pool(std::uint32_t usable) noexcept {
  free_.store(0);
  fresh_.store(1);
  usable_.store(usable);
  backed_.store(kMaxBlocks);
  available_.store(static_cast<std::int32_t>(usable) - 1);
  lane_count_.store(0);
  lanes_->free_count = 0;
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
  const std::uint32_t before = usable_.exchange(kMaxBlocks);
  available_.fetch_add(static_cast<std::int32_t>(kMaxBlocks - before));
}

void Journal::end_session() noexcept {
  header().key = base::random_id();  // what comes later belongs to another session
  // Blocks in use (the stacks of a burst of tasks) stay; beside them there is the idle room.
  const std::uint32_t before = usable_.exchange(std::min(kMaxBlocks, fresh_.load() + kIdleBlocks));
  available_.fetch_sub(static_cast<std::int32_t>(before - usable_.load()));
}

void Journal::copy_used(std::byte* to) noexcept {
  std::memcpy(to, detail::g_base, kNamesOffset + header().names_used.load());
  const std::uint32_t blocks = fresh_.load();
  for (std::uint32_t i = 1; i < blocks; ++i) {
    if (block(i).type.load() == BlockType::kFree) continue;
    const std::size_t offset = bytes_for(i);
    detail::quiet_copy(detail::g_base + offset, to + offset, kBlockBytes);
  }
}

base::Status Journal::attach_file(const std::string& path) {
  const std::string temporary = path + ".tmp";
  base::Fd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return base::Status::from_errno("cannot create " + temporary);
  const auto give_up = [&](base::Status status) {
    ::unlink(temporary.c_str());
    return status;
  };
  const std::uint32_t blocks =
      std::clamp(fresh_.load() + kLowBlocks + kLowBlocks / 2, kFirstBlocks, kMaxBlocks);
  const std::size_t bytes = bytes_for(blocks);
  if (base::Status status = lock_file(fd.get(), temporary); !status.ok()) return give_up(status);
  if (base::Status status = allocate(fd.get(), 0, bytes, temporary); !status.ok())
    return give_up(status);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return give_up(base::Status::from_errno("cannot map " + temporary));
  expect_no_reading(mapped, bytes);
  const std::scoped_lock standstill(backing_, detail::names_mutex());
  header().block_count.store(blocks);
  copy_used(static_cast<std::byte*>(mapped));
  // Only now does the file get its name: whoever finds it finds a complete, locked journal.
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    ::munmap(mapped, bytes);
    return give_up(base::Status::from_errno("cannot rename " + temporary));
  }
  install_bus_guard(detail::g_base, kRangeBytes, fd.get());
  if (::mremap(mapped, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, detail::g_base) == MAP_FAILED) {
    ::munmap(mapped, bytes);
    ::unlink(path.c_str());
    return base::Status::from_errno("cannot map " + path);
  }
  backed_.store(blocks);
  // What the first milliseconds need. The rest of the first second's follows (warm_ahead): touching
  // it here would take longer than all else that profile() does.
  populate(detail::g_base, kNamesOffset + header().names_used.load());
  warmed_ = std::min(fresh_.load() + kAtOnceBlocks, blocks);
  populate(reinterpret_cast<std::byte*>(&block(1)), bytes_for(warmed_) - bytes_for(1));
  file_ = std::move(fd);
  path_ = path;
  return {};
}

void Journal::map_anonymous(std::size_t from) noexcept {
  ::mmap(detail::g_base + from, kRangeBytes - from, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void Journal::detach_file(bool remove) noexcept {
  if (!file_) return;
  const std::scoped_lock standstill(backing_, detail::names_mutex());
  void* memory = ::mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    copy_used(static_cast<std::byte*>(memory));
    if (::mremap(memory, kRangeBytes, kRangeBytes, MREMAP_MAYMOVE | MREMAP_FIXED, detail::g_base) ==
        MAP_FAILED)
      return;
  } else {
    return;  // no memory for the copy: keep recording into the file
  }
  header().block_count.store(0);
  backed_.store(kMaxBlocks);
  remove_bus_guard();
  if (remove) ::unlink(path_.c_str());
  file_.reset();
  path_.clear();
}

std::size_t Journal::file_bytes() const noexcept {
  struct stat info;
  return file_ && ::fstat(file_.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
}

bool Journal::file_is_gone() const noexcept {
  struct stat info;
  return file_ && ::fstat(file_.get(), &info) == 0 && info.st_nlink == 0;
}

// Puts blocks from `first` on, none of which was ever used, into the file.
base::Status Journal::extend_file(std::uint32_t first) {
  const std::size_t from = bytes_for(first);
  if (base::Status status = allocate(file_.get(), from, kRangeBytes, path_); !status.ok()) {
    // What was allocated before the disk refused goes back: the spool needs it more.
    (void)!::ftruncate(file_.get(), static_cast<off_t>(bytes_for(backed_.load())));
    return status;
  }
  if (::mmap(detail::g_base + from, kRangeBytes - from, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file_.get(), static_cast<off_t>(from)) == MAP_FAILED) {
    base::Status status = base::Status::from_errno("cannot map " + path_);
    map_anonymous(from);
    return status;
  }
  expect_no_reading(detail::g_base + from, kRangeBytes - from);
  header().block_count.store(kMaxBlocks);
  return {};
}

base::Status Journal::grow() {
  if (!file_ || backed_.load() == kMaxBlocks || fresh_.load() + kLowBlocks < backed_.load()) {
    return {};
  }
  // Nobody waits for this: blocks behind the end of the file are memory until then, and those in
  // use stay so. A margin keeps what is taken meanwhile out of the range that is exchanged.
  const std::uint32_t first = std::max(backed_.load(), fresh_.load() + kLowBlocks / 2);
  base::Status status;
  if (first < kMaxBlocks) {
    usable_.store(first);
    status = fresh_.load() <= first ? extend_file(first) : base::Status();
    usable_.store(kMaxBlocks);
  }
  backed_.store(kMaxBlocks);  // a disk that refused is not asked again
  return status;
}

std::uint32_t Journal::pop_free() noexcept {
  std::uint64_t top = free_.load(std::memory_order_acquire);
  while (const auto number = static_cast<std::uint32_t>(top)) {
    const std::uint64_t next =
        ((top >> 32) + 1) << 32 | next_free_[number].load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(top, next, std::memory_order_acq_rel)) return number;
  }
  return 0;
}

void Journal::push_free(std::uint32_t number) noexcept {
  std::uint64_t top = free_.load(std::memory_order_relaxed);
  std::uint64_t next;
  do {
    next_free_[number].store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
    next = ((top >> 32) + 1) << 32 | number;
  } while (!free_.compare_exchange_weak(top, next, std::memory_order_acq_rel));
}

std::uint32_t Journal::take_fresh() noexcept {
  std::uint32_t number = fresh_.load(std::memory_order_relaxed);
  while (number < usable_.load(std::memory_order_acquire)) {
    if (fresh_.compare_exchange_weak(number, number + 1)) return number;
  }
  return 0;
}

std::uint32_t Journal::take_block() noexcept {
  std::uint32_t number = pop_free();
  bool low = false;
  if (number == 0) {
    number = take_fresh();
    low = number + kLowBlocks >= backed_.load(std::memory_order_relaxed);
  }
  if (number == 0 || available_.fetch_sub(1) <= static_cast<std::int32_t>(kLowBlocks) || low)
    wake_.raise();
  return number;
}

void Journal::free_block(std::uint32_t number) noexcept {
  // A line that this core has only read costs the next writer on another core twice what a line
  // that it has written does (measured: 100 ns a record against 50). So write to each once.
  auto* slot = reinterpret_cast<std::byte*>(&block(number));
  for (std::uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    slot += kSlotBytes;
    *reinterpret_cast<volatile RecordKind*>(slot) = RecordKind::kNone;
  }
  block(number).type.store(BlockType::kFree, std::memory_order_relaxed);
  if (number >= kFirstBlocks) ++untrimmed_;
  push_free(number);
  available_.fetch_add(1);
}

void Journal::keep_warm() noexcept {
  if (!file_) return;
  populate(detail::g_base, kHeaderBytes);
  const auto warm = [](std::uint32_t number) {
    populate(reinterpret_cast<std::byte*>(&block(number)), kBlockBytes);
  };
  const std::uint32_t lanes = lane_count();
  for (std::uint32_t i = 0; i < lanes; i += 4) warm(lane_blocks_[i / 4]);
  for (std::uint32_t i = 0; i < lanes; ++i) {
    // The owner moves on to other blocks at any time; whichever it was, it is ours to touch.
    const std::uint32_t current = __atomic_load_n(&lane(i).block, __ATOMIC_RELAXED);
    if (current != 0 && current < kMaxBlocks) warm(current);
  }
}

bool Journal::warm_ahead() noexcept {
  constexpr std::uint32_t kPiece = 8;
  if (!file_ || warmed_ >= kAheadBlocks) return true;
  const std::uint32_t end = std::min(warmed_ + kPiece, kAheadBlocks);
  populate(reinterpret_cast<std::byte*>(&block(warmed_)), std::size_t{end - warmed_} * kBlockBytes);
  warmed_ = end;
  return warmed_ == kAheadBlocks;
}

void Journal::trim() {
  if (untrimmed_ == 0) return;
  untrimmed_ = 0;
  // A few stay in the list meanwhile, for whoever records right now.
  std::vector<std::uint32_t> kept, taken;
  for (std::uint32_t i = 0, n; i < kLowBlocks && (n = pop_free()) != 0; ++i) kept.push_back(n);
  for (std::uint32_t n; (n = pop_free()) != 0;) taken.push_back(n);
  for (const std::uint32_t number : kept) push_free(number);
  std::sort(taken.begin(), taken.end(), std::greater<>());
  for (const std::uint32_t number : taken) {
    if (number >= kFirstBlocks)
      ::madvise(static_cast<void*>(&block(number)), kBlockBytes, MADV_DONTNEED);
    push_free(number);
  }
}

void Journal::compact() noexcept {
  std::uint32_t last = fresh_.load() - 1;
  while (last > 0 && block(last).type.load() == BlockType::kFree) --last;
  std::uint32_t free_blocks = 0;
  free_.store(((free_.load() >> 32) + 1) << 32);
  for (std::uint32_t i = last; i > 0; --i) {
    if (block(i).type.load() != BlockType::kFree) continue;
    push_free(i);
    ++free_blocks;
  }
  fresh_.store(last + 1);
  available_.store(static_cast<std::int32_t>(usable_.load() - fresh_.load() + free_blocks));
}

Lane& Journal::lane(std::uint32_t number) noexcept {
  std::byte* start = reinterpret_cast<std::byte*>(&block(lane_blocks_[number / 4]));
  return *reinterpret_cast<Lane*>(start + kSlotBytes + (number % 4) * kLaneBytes);
}

Lane* Journal::take_lane(LaneState state, std::uint64_t inherited_parent) noexcept {
  announce_first_lane();
  const std::lock_guard lock(lanes_->mutex);
  std::uint32_t number;
  if (lanes_->free_count > 0) {
    number = lanes_->free[--lanes_->free_count];
  } else {
    number = lane_count_.load(std::memory_order_relaxed);
    if (number == kMaxLanes) return nullptr;
    if (number % 4 == 0) {
      // Stacks may take half of the blocks: a burst of tasks must leave room for what it records.
      if (number / 4 >= usable_.load() / 2) return nullptr;
      const std::uint32_t fresh = take_block();
      if (fresh == 0) return nullptr;
      std::memset(static_cast<void*>(&block(fresh)), 0, kBlockBytes);
      lane_blocks_[number / 4] = fresh;
      block(fresh).type.store(BlockType::kLanes, std::memory_order_release);
    }
    Lane& made = lane(number);
    made.number = number;
    made.next_sequence = (std::uint64_t{number} << kSequenceBits) + first_sequence_;
    made.block_used = kSlotsPerBlock;
    lane_count_.store(number + 1, std::memory_order_release);
  }
  Lane& taken = lane(number);
  taken.thread_id = static_cast<std::uint64_t>(::pthread_self());
  taken.os_thread_id = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  taken.inherited_parent = inherited_parent;
  taken.inherited_session = __atomic_load_n(&header().session.sequence, __ATOMIC_RELAXED);
  ++taken.tenancy;
  taken.state.store(state, std::memory_order_release);
  return &taken;
}

void Journal::give_lane(Lane& lane) noexcept {
  lane.depth.store(0, std::memory_order_release);
  lane.arena_used = 0;
  lane.inherited_parent = 0;
  const std::lock_guard lock(lanes_->mutex);
  lane.state.store(LaneState::kFree, std::memory_order_release);
  lanes_->free[lanes_->free_count++] = lane.number;
}

std::uint64_t Journal::bus_errors() noexcept { return bus_error_count(); }
std::uint64_t Journal::lost_pages() noexcept { return lost_page_count(); }

void Journal::remember_session() noexcept {
  if (!remembered_) remembered_ = std::make_unique<std::byte[]>(sizeof(Header));
  std::memcpy(remembered_.get(), static_cast<const void*>(&header()), sizeof(Header));
}

void Journal::start_over() noexcept {
  {
    const std::scoped_lock standstill(backing_, detail::names_mutex(), lanes_->mutex);
    map_anonymous(0);
    remove_bus_guard();
    if (!path_.empty()) ::unlink(path_.c_str());
    file_.reset();
    path_.clear();
    reset_pool(kMaxBlocks);
    if (remembered_) std::memcpy(static_cast<void*>(&header()), remembered_.get(), sizeof(Header));
    header().block_count.store(0);
    // Ids must not come again under the same key: further on than any lane can have got.
    first_sequence_ += std::uint64_t{1} << 34;
    detail::mirror_names();
  }
  detail::begin_generation();
}

void Journal::before_fork() noexcept {
  backing_.lock();
  detail::names_mutex().lock();
  lanes_->mutex.lock();
}

void Journal::after_fork_in_parent() noexcept {
  lanes_->mutex.unlock();
  detail::names_mutex().unlock();
  backing_.unlock();
}

void Journal::after_fork_in_child() noexcept {
  // The mapping is shared with the parent: nothing may be written before it is replaced.
  map_anonymous(0);
  remove_bus_guard();
  file_.reset();  // our copy of the descriptor would keep the parent's lock alive
  path_.clear();
  lanes_->mutex.unlock();
  on_first_lane_.store(nullptr);
  detail::forget_attaching();
  reset_pool(kIdleBlocks);
  detail::mirror_names();
  detail::names_mutex().unlock();
  backing_.unlock();
  detail::forget_ends();
  detail::begin_generation();
}

}  // namespace sonde::record
