#include "engine/journal/inspect.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "engine/base/clock.h"
#include "engine/journal/commit.h"
#include "engine/journal/file.h"
#include "engine/journal/ring_reader.h"

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

void describe(const View& view, Report& out) {
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

void settle_last_sign(Report& out) {
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

void settle_ages(const Header& head, Report& out) {
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
bool read_once(const View& view, const Destination& destination, Report& out) {
  out.records.clear();
  out.open.clear();
  const Starts starts(view, destination);
  RingReader reader(view);
  const std::vector<const Lane*> lanes = view.lanes();
  std::vector<std::uint64_t> tails;
  for (const Lane* lane : lanes) {
    record::RingTail cursor = starts.of(*lane);
    tails.push_back(lane->tail.position);
    reader.read(*lane, cursor, ~std::size_t{0}, out.records, nullptr);
  }
  if (!starts.all_moved()) collect_open(view, reader, out.records.arena, out.open);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i]->tail.position != tails[i]) return false;
  }
  out.damaged = reader.damaged();
  return true;
}

// The report outlives the mapping: names and fixed attributes, which still lie there, are copied,
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

// Rings are read one after the other; what they hold happened at the same time.
void sort_by_time(model::Batch& records) {
  std::stable_sort(records.spans.begin(), records.spans.end(),
                   [](const model::Span& a, const model::Span& b) { return a.end_ns < b.end_ns; });
  std::stable_sort(records.marks.begin(), records.marks.end(),
                   [](const model::Mark& a, const model::Mark& b) { return a.ts_ns < b.ts_ns; });
}

}  // namespace

base::Status inspect(const std::string& path, const Destination& destination, Report& out) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    out = {};
    out.path = path;
    File file;  // opened again each time: the owner may have made it larger
    if (base::Status status = file.open(path, false); !status.ok()) return status;
    out.alive = file.owner_alive();
    const bool calm = read_once(file.view(), destination, out);
    own_text(file.view(), out.records);
    describe(file.view(), out);
    settle_last_sign(out);
    settle_ages(file.view().header(), out);
    if (calm) break;
  }
  sort_by_time(out.records);
  return {};
}

}  // namespace sonde::journal
