// One session: from start to stop, with its drain thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/event.h"
#include "engine/base/json_writer.h"
#include "engine/record/lane.h"
#include "engine/session/attributes.h"
#include "engine/session/captures.h"
#include "engine/session/drainer.h"
#include "engine/session/engine.h"
#include "engine/session/lines.h"
#include "engine/session/memory.h"
#include "engine/session/outbox.h"

namespace sonde::session {

// What outlives sessions: guarded by `lock`, which no recording thread ever takes.
struct Shared {
  std::mutex lock;
  Drainer drainer;
  Memory memory;
};

// Between the two clocks; it changes when somebody sets one of them.
inline std::int64_t clock_offset() {
  return base::wall_clock_ns() - static_cast<std::int64_t>(base::monotonic_ns());
}

// Where epochs are short, how often captures wake the drain thread at most; also how often it gives
// a sign of life.
inline constexpr std::uint64_t kCapturesTogetherNs = 250'000'000;

class Session {
 public:
  Session(Shared& shared, Options options);
  ~Session();

  // The caller keeps other recording threads of the host away (it holds the GIL).
  void begin();
  // Any thread, before it takes the first lane: what an on-demand session has put off.
  void awaken();
  bool asleep() const noexcept { return asleep_.load(); }
  void close_scopes(bool for_good = false);  // for good: nothing is recorded any more
  // No such condition; the callbacks may need the GIL.
  void finish();  // writes everything
  // Again with the GIL: the journal goes back to memory.
  void release();

  void flush();
  // Any thread.
  void add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                   bool more);
  snapshot::BlobRoom reserve_blob(std::uint64_t bytes);
  Counters counters() const;
  Attributes& attributes() noexcept { return attributes_; }
  void await_exit_status() noexcept { awaits_exit_status_ = true; }

 private:
  struct Complaint {
    const char* key;
    std::string text;
  };
  using Complaints = std::vector<Complaint>;

  Complaints open();
  static void speak(const Complaints& complaints);
  bool end_asleep();
  bool is_only_the_session() const;
  base::Status open_journal();
  void say_no_place_for_blobs() const noexcept;
  void open_root();
  // What the drain thread and the end of the session share. The thread touches the session only
  // with the lock held and while it is not over.
  struct Watch {
    std::mutex lock;
    bool over = false;
  };
  void run(Watch& watch, std::uint32_t seen_at_start) noexcept;
  void try_tick() noexcept;
  void end_draining() noexcept;
  void drain_here(bool last) noexcept;
  void tick();
  void last_tick(std::uint64_t blob_patience_ns);
  void drain_batches();
  void await_gpu();
  void await_captures(std::uint64_t statistics_ns, std::uint64_t blobs_ns);
  void deliver_captures();
  void grow_journal();
  bool journal_was_lost();
  bool next_batch(Moved& moved);
  void deliver(Moved moved);
  void note_end_file();
  void look_around();
  void recover_once() noexcept;
  void recover_dead();
  bool sleep(std::uint32_t seen, Watch& watch, std::unique_lock<std::mutex>& lock);
  void finish_for_signal();

  Shared& shared_;
  Options options_;
  Lines lines_;
  std::optional<spool::Directory> directory_;
  std::optional<Outbox> outbox_;
  std::optional<snapshot::BlobWriter> blobs_;
  Captures captures_;
  Attributes attributes_;
  base::Id root_id_;
  std::string end_file_;             // where the session's span is, once it is written
  bool awaits_exit_status_ = false;  // which is then added there
  std::thread thread_;
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  std::recursive_mutex waking_;
  std::atomic<bool> asleep_{false};  // on demand, and nothing was recorded yet
  bool threadless_ = false;          // no thread could be had
  std::mutex draining_here_;         // then: one caller at a time
  bool ended_here_ = false;
  bool recovered_ = false;
  model::Batch batch_;
  model::Batch earlier_;  // marks of batch_'s spans that came in earlier batches, for the lines
  model::Batch open_;     // scopes that were open when batch_ was drained, likewise
  base::JsonWriter json_;
  record::Losses lost_at_start_;
  bool all_written_ = true;
  bool output_usable_ = true;  // false: the output directory cannot be made
  std::uint64_t lost_pages_ = 0;
  std::int64_t last_created_ns_ = 0;
  std::int64_t clock_offset_ns_ = 0;
  std::atomic<bool> stopping_{false}, captures_wait_{false};
  std::atomic<std::uint64_t> capture_wake_ns_{0};
  std::atomic<std::uint64_t> requested_{0}, done_{0};
  base::Event done_event_;
  std::atomic<std::uint64_t> clock_steps_{0}, recovered_journals_{0}, recovered_spans_{0},
      recovery_problems_{0}, batches_{0}, snapshots_{0};
};

}  // namespace sonde::session
