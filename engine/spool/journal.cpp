#include "engine/spool/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/base/file.h"
#include "engine/spool/commit.h"
#include "engine/spool/directory.h"
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
    return {EPROTO, path_ + " is a journal of version " + std::to_string(head.version) +
                        " and this program reads version " +
                        std::to_string(record::kJournalVersion) +
                        "; read it with the sonde that wrote it"};
  }
  return {};
}

JournalFile::~JournalFile() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::vector<record::Lane*> JournalFile::lanes() const {
  std::vector<record::Lane*> found;
  for (const Lane* lane : view().lanes()) found.push_back(const_cast<Lane*>(lane));
  return found;
}

JournalView JournalFile::view() const {
  const auto blocks =
      static_cast<std::uint32_t>((bytes_ - record::kBlocksOffset) / record::kBlockBytes);
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
  return std::strncmp(host, head.host, sizeof host) == 0 &&
         ::kill(static_cast<pid_t>(head.pid), 0) != 0 && errno == ESRCH;
}

namespace {

// Whether the record that closes this scope was published before the process died. The slot's flag
// says less: it is set first.
bool record_is_there(const std::vector<const Lane*>& lanes, std::uint64_t closing) {
  if (closing == 0) return false;
  if (closing == record::kNoRecord) return true;
  const std::uint64_t position = closing & ((std::uint64_t{1} << kSequenceBits) - 1);
  for (const Lane* lane : lanes) {
    if (lane->number == closing >> kSequenceBits)
      return lane->head.load(std::memory_order_acquire) >= position;
  }
  return false;
}

OpenScope* copy_scope(const OpenScope& from, std::byte (&storage)[sizeof(OpenScope)]) {
  std::memcpy(storage, static_cast<const void*>(&from), sizeof(OpenScope));
  return reinterpret_cast<OpenScope*>(storage);
}

void collect_lane(const RingReader& reader, const std::vector<const Lane*>& lanes, const Lane& lane,
                  JournalReport& out) {
  const std::uint32_t depth =
      std::min(lane.depth.load(std::memory_order_acquire), record::kMaxDepth);
  for (std::uint32_t i = 0; i < depth; ++i) {
    alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
    const OpenScope& scope = *copy_scope(lane.stack[i], storage);
    if (scope.sequence == 0 || record_is_there(lanes, scope.closing)) continue;
    const std::size_t offset = std::min<std::size_t>(scope.text_offset, record::kLaneArenaBytes);
    OpenScopeView view;
    view.span = reader.open_span(scope, {lane.arena + offset, record::kLaneArenaBytes - offset},
                                 lane.thread_id, out.records.arena);
    view.sequence = scope.sequence;
    view.os_thread_id = lane.os_thread_id;
    view.lane = lane.number;
    view.task = lane.state.load(std::memory_order_relaxed) == record::LaneState::kTask;
    out.open.push_back(view);
  }
}

}  // namespace

void collect_open(const JournalView& view, const RingReader& reader, JournalReport& out) {
  const Header& head = view.header();
  const std::vector<const Lane*> lanes = view.lanes();
  alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
  const OpenScope& session = *copy_scope(head.session, storage);
  if (session.sequence != 0 && !record_is_there(lanes, session.closing)) {
    OpenScopeView root;
    root.span = reader.open_span(session, {head.session_text, record::kSessionTextBytes},
                                 head.session_thread_id, out.records.arena);
    root.sequence = session.sequence;
    root.session = true;
    out.open.push_back(root);
  }
  for (const Lane* lane : lanes) {
    if (lane->state.load(std::memory_order_acquire) != record::LaneState::kFree)
      collect_lane(reader, lanes, *lane, out);
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
  out.ended = head.clean != 0 || head.ended != 0;
  out.started_ns = head.anchor.wall_ns;
  out.lost_records = head.lost_records;
  out.last_sign_ns = base::to_wall_ns(head.anchor, head.alive_ns.load());
}

namespace {

void settle_last_sign(JournalReport& out) {
  for (const model::Span& span : out.records.spans)
    out.last_sign_ns = std::max(out.last_sign_ns, span.end_ns);
  for (const model::Mark& mark : out.records.marks)
    out.last_sign_ns = std::max(out.last_sign_ns, mark.ts_ns);
  for (const OpenScopeView& open : out.open)
    out.last_sign_ns = std::max(out.last_sign_ns, open.span.start_ns);
}

// By the clock of the session, which was anchored once: setting the system's changes no age. The
// other clock counts from the start of a machine, so it says nothing about a process elsewhere.
std::int64_t now_of(const Header& head) {
  char host[sizeof head.host] = {};
  ::gethostname(host, sizeof host - 1);
  if (std::strncmp(host, head.host, sizeof host) != 0) return 0;
  return base::to_wall_ns(head.anchor, base::monotonic_ns());
}

void settle_ages(const Header& head, JournalReport& out) {
  out.seen_ns = out.alive ? std::max(out.last_sign_ns, now_of(head)) : out.last_sign_ns;
  for (OpenScopeView& open : out.open) {
    open.span.seen_ns = out.seen_ns;
    open.span.left = !out.alive;
  }
}

// Where reading has to begin. A batch that was announced and whose file is there is in the spool,
// although the tails do not say so yet: its owner died, or is about to.
class Starts {
 public:
  Starts(const JournalView& view, const std::string& journal) {
    const Header& head = view.header();
    const std::uint64_t pending = head.pending.load(std::memory_order_acquire);
    if (pending == 0) return;
    const std::string live = journal.substr(0, journal.rfind('/'));
    const std::string output_dir = live.substr(0, live.rfind('/'));
    const bool there = Directory(output_dir, 0).contains(head.pending_created_ns, head.pending_id);
    moved_ = there || pending == kTailsOnly;
    all_moved_ = there && pending == kLastBatch;
  }
  const record::RingTail& of(const Lane& lane) const {
    return moved_ ? lane.pending_tail : lane.tail;
  }
  bool all_moved() const { return all_moved_; }

 private:
  bool moved_ = false, all_moved_ = false;
};

// One reading; false when the owner moved records to the spool meanwhile, so that they may be torn.
bool read_once(const JournalView& view, JournalReport& out) {
  out.records.clear();
  out.open.clear();
  const Starts starts(view, out.path);
  RingReader reader(view);
  const std::vector<const Lane*> lanes = view.lanes();
  std::vector<std::uint64_t> tails;
  for (const Lane* lane : lanes) {
    record::RingTail cursor = starts.of(*lane);
    tails.push_back(lane->tail.position);
    reader.read(*lane, cursor, ~std::size_t{0}, out.records, nullptr);
  }
  if (!starts.all_moved()) collect_open(view, reader, out);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]->tail.position != tails[i]) return false;
  }
  out.damaged = reader.damaged();
  return true;
}

// The report outlives the mapping: names and fixed attributes, which still lie there, are copied,
// each once.
void own_text(const JournalView& view, model::Batch& records) {
  const char* const from = reinterpret_cast<const char*>(view.base);
  const char* const to = from + record::kBlocksOffset;
  std::unordered_map<const char*, std::string_view> copies;
  const auto own = [&](std::string_view& text) {
    if (text.data() < from || text.data() >= to) return;
    const auto [place, fresh] = copies.try_emplace(text.data(), text);
    if (fresh) place->second = records.arena.copy(text);
    text = place->second;
  };
  for (model::Span& span : records.spans) {
    own(span.name);
    own(span.attrs);
  }
  for (model::Mark& mark : records.marks) own(mark.name);
}

// Rings are read one after the other; what they hold happened at the same time.
void sort_by_time(model::Batch& records) {
  std::stable_sort(records.spans.begin(), records.spans.end(),
                   [](const model::Span& a, const model::Span& b) { return a.end_ns < b.end_ns; });
  std::stable_sort(records.marks.begin(), records.marks.end(),
                   [](const model::Mark& a, const model::Mark& b) { return a.ts_ns < b.ts_ns; });
}

}  // namespace

base::Status inspect_journal(const std::string& path, JournalReport& out) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    out = {};
    out.path = path;
    JournalFile file;  // opened again each time: the owner may have made it larger
    if (base::Status status = file.open(path, false); !status.ok()) return status;
    out.alive = file.owner_alive();
    const bool calm = read_once(file.view(), out);
    own_text(file.view(), out.records);
    describe(file.view(), out);
    settle_last_sign(out);
    settle_ages(file.view().header(), out);
    if (calm) break;
  }
  sort_by_time(out.records);
  return {};
}

}  // namespace sonde::spool
