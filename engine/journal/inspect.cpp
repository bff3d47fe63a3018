#include "engine/journal/inspect.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/journal/commit.h"
#include "engine/journal/destination.h"
#include "engine/journal/file.h"
#include "engine/journal/open_scopes.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/record/layout.h"

namespace sonde::journal {

using record::Header;
using record::Lane;

std::string file_name(std::int64_t started_ns, const base::Id& key) {
  char name[64];
  const int digits =
      std::snprintf(name, sizeof name, "%020lld-", static_cast<long long>(started_ns));
  base::write_hex(key, name + digits);
  return std::string(name, static_cast<std::size_t>(digits) + 32).append(kJournalSuffix);
}

void describe(const View& view, model::ProcessState& out) {
  const Header& head = view.header();
  out.pid = static_cast<std::int32_t>(head.pid);
  out.rank = head.rank;
  out.world_size = head.world_size;
  out.host.assign(head.host, ::strnlen(head.host, sizeof head.host));
  out.fate = head.clean != 0   ? model::Fate::kShutDown
             : head.ended != 0 ? model::Fate::kEnded
                               : model::Fate::kDead;
  out.started_ns = head.anchor.wall_ns;
  out.lost_records = head.lost_records;
  out.last_sign_ns = base::to_wall_ns(head.anchor, head.alive_ns.load());
}

namespace {

void settle_last_sign(const model::Batch& records, model::ProcessState& out) {
  for (const model::Span& span : records.spans)
    out.last_sign_ns = std::max(out.last_sign_ns, span.end_ns);
  for (const model::Mark& mark : records.marks)
    out.last_sign_ns = std::max(out.last_sign_ns, mark.ts_ns);
  for (const model::OpenScope& open : out.open)
    out.last_sign_ns = std::max(out.last_sign_ns, open.span.start_ns);
}

// Now, by the clock of the session, so that setting the system clock changes no age; 0 for a
// process of another machine. That clock counts from the start of a machine and says nothing about
// others.
std::int64_t now_of(const Header& head) {
  char host[sizeof head.host] = {};
  ::gethostname(host, sizeof host - 1);
  if (std::strncmp(host, head.host, sizeof host) != 0) return 0;
  return base::to_wall_ns(head.anchor, base::monotonic_ns());
}

void settle_ages(const Header& head, model::ProcessState& out) {
  const bool alive = out.fate == model::Fate::kRunning;
  out.seen_ns = alive ? std::max(out.last_sign_ns, now_of(head)) : out.last_sign_ns;
  for (model::OpenScope& open : out.open) {
    open.span.seen_ns = out.seen_ns;
    open.span.left = !alive;
  }
}

// What the owner of a journal changes when it moves records to the spool, at one moment.
class Progress {
 public:
  Progress(const View& view, const std::vector<const Lane*>& lanes) {
    const Header& head = view.header();
    pending = head.pending.load(std::memory_order_acquire);
    pending_id = head.pending_id;
    pending_created_ns = head.pending_created_ns;
    for (const Lane* lane : lanes) {
      tails.push_back(copy(lane->tail));
      pending_tails.push_back(copy(lane->pending_tail));
    }
    std::atomic_thread_fence(std::memory_order_acquire);  // what is read later is read after this
  }
  bool operator==(const Progress&) const = default;

  struct Tail {
    std::uint64_t position, thread_id;
    std::uint32_t block;
    bool operator==(const Tail&) const = default;
    record::RingTail cursor() const { return {position, thread_id, block, 0}; }
  };
  std::uint64_t pending;
  base::Id pending_id;
  std::int64_t pending_created_ns;
  std::vector<Tail> tails, pending_tails;

 private:
  // Word by word: the owner may be writing them.
  static Tail copy(const record::RingTail& tail) {
    return {__atomic_load_n(&tail.position, __ATOMIC_RELAXED),
            __atomic_load_n(&tail.thread_id, __ATOMIC_RELAXED),
            __atomic_load_n(&tail.block, __ATOMIC_RELAXED)};
  }
};

// One reading; false when the owner moved records to the spool meanwhile, so that they may be torn,
// or missing here and there.
bool read_once(const View& view, const Destination& destination, model::Process& out) {
  const std::vector<const Lane*> lanes = view.lanes();
  const Progress before(view, lanes);
  if (before != Progress(view, lanes)) return false;
  // A batch that was announced and has arrived is in the spool, although the tails do not say so
  // yet: the owner died before it moved them, or is about to move them.
  const bool there =
      before.pending != 0 && destination.contains(before.pending_created_ns, before.pending_id);
  const bool moved = there || before.pending == kTailsOnly;
  RingReader reader(view);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    record::RingTail cursor = (moved ? before.pending_tails : before.tails)[i].cursor();
    reader.read(*lanes[i], cursor, ~std::size_t{0}, out.records, nullptr);
  }
  std::vector<OpenSlot> open;
  const bool all_moved = there && before.pending == kLastBatch;
  if (!all_moved) collect_open(view, reader, out.records.arena, open);
  for (const OpenSlot& slot : open) out.state.open.push_back(slot.scope);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (before != Progress(view, lanes)) return false;
  out.state.damaged = reader.damaged();
  return true;
}

// The result outlives the mapping: names and fixed attributes, which still lie there, are copied,
// each once.
void own_text(const View& view, model::Batch& records) {
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

// Rings are read one after the other, but what they hold happened at the same time.
void sort_by_time(model::Batch& records) {
  std::stable_sort(records.spans.begin(), records.spans.end(),
                   [](const model::Span& a, const model::Span& b) { return a.end_ns < b.end_ns; });
  std::stable_sort(records.marks.begin(), records.marks.end(),
                   [](const model::Mark& a, const model::Mark& b) { return a.ts_ns < b.ts_ns; });
}

}  // namespace

base::Status inspect(const std::string& path, const Destination& destination, model::Process& out) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    out = {};
    File file;  // opened again each time: the owner may have made it larger
    if (base::Status status = file.open(path, false); !status.ok()) return status;
    const bool alive = file.owner_alive();
    const bool calm = read_once(file.view(), destination, out);
    own_text(file.view(), out.records);
    describe(file.view(), out.state);
    if (alive) out.state.fate = model::Fate::kRunning;
    settle_last_sign(out.records, out.state);
    settle_ages(file.view().header(), out.state);
    if (calm) break;
  }
  out.state.unflushed_spans = out.records.spans.size();
  out.state.unflushed_marks = out.records.marks.size();
  sort_by_time(out.records);
  return {};
}

}  // namespace sonde::journal
