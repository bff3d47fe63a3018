// Keeps the journal of a session: puts it on its file, enlarges it, keeps its pages at hand, begins
// again where pages were lost, recovers what dead processes left, and says what went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/record/lane.h"
#include "engine/session/attributes.h"
#include "engine/session/counters.h"
#include "engine/session/left_behind.h"

namespace sonde::session {

// A message for the user. Logging it may need the GIL, so it is put off until no lock is held.
struct Complaint {
  const char* key;
  std::string text;
  std::string advice = {};
};
using Complaints = std::vector<Complaint>;
// Logs them. Without memory for it they are counted only.
void speak(const Complaints& complaints) noexcept;

class JournalKeeper {
 public:
  // "": the session writes nothing durable, and the journal stays in memory. `lost_earlier`: what
  // belongs to earlier sessions.
  explicit JournalKeeper(std::string output_dir, const record::Losses& lost_earlier)
      : output_dir_(std::move(output_dir)), lost_earlier_(lost_earlier) {}

  // -- quiet: no other thread of the host records --

  // Puts the journal on its file; if that is not possible, recording goes on in memory. The root
  // span is in the header already.
  void open(Complaints& complaints);
  // The session is over: moves the journal back to memory. Its file stays if it has records that
  // the spool does not have.
  void release();

  // -- the draining thread (drain_loop.h) --

  // To be called before recording can reach the end of the file: enlarges it.
  void grow();
  // Once per tick. `idle`: nothing was recorded since the last one.
  void keep(bool idle);
  // True when pages of the journal have vanished (its file was truncated): what was just read from
  // it may be nonsense, and start_over() is due. The drain lock is held.
  bool lost_pages() const noexcept;
  // Starts the journal of the same session again in empty memory. Recording stands still, and the
  // drain lock is held; so the message is left to keep() and say_lost_pages().
  void start_over();
  void say_lost_pages() noexcept;
  // Moves journals of dead processes into the spool, the first time it is called.
  void recover_once() noexcept;
  // Says, when the session ends, what could not be written to the spool.
  void say_left_behind(const LeftBehind& left) const;
  // The process is about to die by a signal: marks the journal as ended and removes its file if all
  // of it is in the spool.
  void end_by_signal();

  // -- any thread --

  // Something may be in the journal that is not in the spool: its file outlives the session.
  void keep_file() noexcept { all_written_.store(false); }
  bool all_written() const noexcept { return all_written_.load(); }
  Attributes& attributes() noexcept { return attributes_; }
  void count(Counters& all) const;

 private:
  base::Status attach();
  void recover();
  void look_at_clock();
  void look_for_trouble();

  std::string output_dir_;
  std::string path_;  // of the file, also when the journal is not on it any more
  Attributes attributes_;
  std::atomic<bool> all_written_{true};
  bool usable_ = true;  // false: the output directory cannot be made
  bool recovered_ = false;
  bool unsaid_loss_ = false;  // start_over() was called
  std::uint64_t lost_pages_ = 0;
  const record::Losses lost_earlier_;
  // Of the process, when the session began.
  std::uint64_t bus_errors_at_start_ = 0;
  record::Losses lost_at_start_;
  std::int64_t clock_offset_ns_ = 0;
  struct {
    std::atomic<std::uint64_t> clock_steps{0}, journals{0}, spans{0}, problems{0};
  } counts_;
};

}  // namespace sonde::session
