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

// Where reading has to begin. A batch that was announced and has arrived is in the spool, although
// the tails do not say so yet: the owner died before it moved them, or is about to move them.
class Starts {
 public:
  Starts(const View& view, const Destination& destination) {
    const Header& head = view.header();
    const std::uint64_t pending = head.pending.load(std::memory_order_acquire);
    if (pending == 0) return;
    const bool there = destination.contains(head.pending_created_ns, head.pending_id);
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
bool read_once(const View& view, const Destination& destination, model::Process& out) {
  const Starts starts(view, destination);
  RingReader reader(view);
  const std::vector<const Lane*> lanes = view.lanes();
  std::vector<std::uint64_t> tails;
  for (const Lane* lane : lanes) {
    record::RingTail cursor = starts.of(*lane);
    tails.push_back(lane->tail.position);
    reader.read(*lane, cursor, ~std::size_t{0}, out.records, nullptr);
  }
  std::vector<OpenSlot> open;
  if (!starts.all_moved()) collect_open(view, reader, out.records.arena, open);
  for (const OpenSlot& slot : open) out.state.open.push_back(slot.scope);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]->tail.position != tails[i]) return false;
  }
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
