#include "engine/spool/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/base/file.h"
#include "engine/base/json_writer.h"
#include "engine/spool/directory.h"
#include "engine/spool/encode.h"
#include "engine/spool/journal_file.h"
#include "engine/spool/ring_reader.h"

namespace sonde::spool {

using record::Header;
using record::kSequenceBits;
using record::Lane;
using record::OpenScope;

base::Status JournalFile::open(const std::string& path, bool writable) {
  path_ = path;
  fd_ = base::Fd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd_) return base::Status::from_errno("cannot open " + path);
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0) return base::Status::from_errno("cannot read " + path);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < record::kBlocksOffset) {
    return {EPROTO, path + " is no journal (too short); remove it if nothing else needs it"};
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = ::mmap(nullptr, size, protection, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return base::Status::from_errno("cannot map " + path);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = size;
  return check_header();
}

base::Status JournalFile::check_header() const {
  const auto& head = *reinterpret_cast<const Header*>(memory_);
  if (std::memcmp(head.magic, record::kJournalMagic, sizeof head.magic) != 0) {
    return {EPROTO, path_ + " is no journal; remove it if nothing else needs it"};
  }
  if (head.version != record::kJournalVersion || head.header_bytes != record::kHeaderBytes) {
    return {EPROTO, path_ + " is a journal of version " + std::to_string(head.version) + " and this program reads version " +
                        std::to_string(record::kJournalVersion) + "; read it with the sonde that wrote it"};
  }
  return {};
}

JournalFile::~JournalFile() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

JournalView JournalFile::view() const {
  const auto blocks = static_cast<std::uint32_t>((bytes_ - record::kBlocksOffset) / record::kBlockBytes);
  return {memory_, std::min(blocks, reinterpret_cast<const Header*>(memory_)->block_count.load())};
}

bool JournalFile::gone() const {
  struct stat info;
  return ::fstat(fd_.get(), &info) == 0 && info.st_nlink == 0;
}

bool JournalFile::owner_alive() const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return ::fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool JournalFile::try_lock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (errno != ENOLCK && errno != EOPNOTSUPP && errno != EINVAL) return false;
  // No locks on this file system: the best evidence left is the process table of this host.
  const Header& head = *reinterpret_cast<const Header*>(memory_);
  char host[sizeof head.host] = {};
  ::gethostname(host, sizeof host - 1);
  return std::strncmp(host, head.host, sizeof host) == 0 && ::kill(static_cast<pid_t>(head.pid), 0) != 0 && errno == ESRCH;
}

namespace {

// Whether the record that closes this scope was published before the process died.
bool record_is_there(const std::vector<const Lane*>& lanes, std::uint64_t closing) {
  if (closing == 0) return false;
  const std::uint64_t position = closing & ((std::uint64_t{1} << kSequenceBits) - 1);
  for (const Lane* lane : lanes) {
    if (lane->number == closing >> kSequenceBits) return lane->head.load(std::memory_order_acquire) >= position;
  }
  return false;
}

OpenScope* copy_scope(const OpenScope& from, std::byte (&storage)[sizeof(OpenScope)]) {
  std::memcpy(storage, static_cast<const void*>(&from), sizeof(OpenScope));
  return reinterpret_cast<OpenScope*>(storage);
}

void collect_lane(const RingReader& reader, const std::vector<const Lane*>& lanes, const Lane& lane, JournalReport& out) {
  const std::uint32_t depth = std::min(lane.depth.load(std::memory_order_acquire), record::kMaxDepth);
  for (std::uint32_t i = 0; i < depth; ++i) {
    alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
    const OpenScope& scope = *copy_scope(lane.stack[i], storage);
    const bool closed = (scope.flags.load(std::memory_order_relaxed) & record::kSlotClosed) != 0;
    if (closed || scope.sequence == 0 || record_is_there(lanes, scope.closing)) continue;
    const std::size_t offset = std::min<std::size_t>(scope.text_offset, record::kLaneArenaBytes);
    OpenScopeView view;
    view.span = reader.open_span(scope, {lane.arena + offset, record::kLaneArenaBytes - offset}, lane.thread_id, out.records.arena);
    view.os_thread_id = lane.os_thread_id;
    view.lane = lane.number;
    view.task = lane.state.load(std::memory_order_relaxed) == record::LaneState::kTask;
    out.open.push_back(view);
  }
}

}  // namespace

void collect_open(const JournalView& view, const RingReader& reader, JournalReport& out) {
  const Header& head = view.header();
  if (head.session.sequence != 0) {
    alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
    OpenScopeView root;
    root.span = reader.open_span(*copy_scope(head.session, storage), {head.session_text, record::kSessionTextBytes}, head.session_thread_id, out.records.arena);
    root.session = true;
    out.open.push_back(root);
  }
  const std::vector<const Lane*> lanes = view.lanes();
  for (const Lane* lane : lanes) {
    if (lane->state.load(std::memory_order_acquire) != record::LaneState::kFree) collect_lane(reader, lanes, *lane, out);
  }
}

void describe(const JournalView& view, JournalReport& out) {
  const Header& head = view.header();
  out.version = head.version;
  out.pid = static_cast<std::int32_t>(head.pid);
  out.rank = head.rank;
  out.local_rank = head.local_rank;
  out.world_size = head.world_size;
  out.host.assign(head.host, ::strnlen(head.host, sizeof head.host));
  out.clean = head.clean != 0;
  out.started_ns = head.anchor.wall_ns;
  out.lost_records = head.lost_records;
  out.last_sign_ns = base::to_wall_ns(head.anchor, head.alive_ns.load());
}

namespace {

void settle_last_sign(JournalReport& out) {
  for (const model::Span& span : out.records.spans) out.last_sign_ns = std::max(out.last_sign_ns, span.end_ns);
  for (const model::Mark& mark : out.records.marks) out.last_sign_ns = std::max(out.last_sign_ns, mark.ts_ns);
  for (const OpenScopeView& open : out.open) out.last_sign_ns = std::max(out.last_sign_ns, open.span.start_ns);
}

// One reading; false when the owner moved records to the spool meanwhile, so that they may be torn.
bool read_once(const JournalView& view, JournalReport& out) {
  out.records.clear();
  out.open.clear();
  RingReader reader(view);
  const std::vector<const Lane*> lanes = view.lanes();
  std::vector<std::uint64_t> tails;
  for (const Lane* lane : lanes) {
    record::RingTail cursor = lane->tail;
    tails.push_back(cursor.position);
    reader.read(*lane, cursor, record::kBlockBytes * std::size_t{64}, out.records, nullptr);
  }
  collect_open(view, reader, out);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]->tail.position != tails[i]) return false;
  }
  out.damaged = reader.damaged();
  return true;
}

}  // namespace

base::Status inspect_journal(const std::string& path, JournalReport& out) {
  out = {};
  out.path = path;
  JournalFile file;
  if (base::Status status = file.open(path, false); !status.ok()) return status;
  out.alive = file.owner_alive();
  constexpr int kTries = 8;
  for (int i = 0; i < kTries && !read_once(file.view(), out); ++i) {
  }
  describe(file.view(), out);
  settle_last_sign(out);
  return {};
}

}  // namespace sonde::spool
