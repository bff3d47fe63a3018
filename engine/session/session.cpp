// How a session goes on and ends; opening.cpp has its beginning.
#include "engine/session/session.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/base/attr_names.h"
#include "engine/base/deadline.h"
#include "engine/base/face.h"
#include "engine/base/host_thread.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/root.h"
#include "engine/record/scope.h"
#include "engine/session/counters.h"
#include "engine/session/exit_status.h"
#include "engine/session/options.h"
#include "engine/session/shared.h"
#include "engine/session/signals.h"
#include "engine/session/standstill.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

using record::Journal;

namespace {

// After a signal that ends the process.
constexpr std::uint64_t kMessagesPatienceNs = 500'000'000;

}  // namespace

Session::Session(Shared& shared, Options options)
    : shared_(shared),
      options_(std::move(options)),
      sinks_(shared, options_),
      captures_(options_.output_dir, options_.blobs),
      keeper_(sinks_.durable() ? options_.output_dir : std::string(), shared.lost_earlier),
      transfer_(shared, keeper_, captures_.waiting(), sinks_, options_.on_demand),
      loop_(transfer_, keeper_, captures_, sinks_, options_.flush_interval_ns,
            [this] { end_by_signal(); }),
      asleep_(options_.on_demand) {  // other threads see it before it begins
  base::set_face(options_.face);
}

void Session::flush() {
  if (!asleep()) loop_.flush();
}

void Session::add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                          bool more) {
  if (asleep()) awaken();
  captures_.add(std::move(capture), std::move(blob), more);
}

void Session::await_exit_status() {
  awaits_exit_status_ = true;
  sinks_.find(root_id_);
}

void Session::close_scopes(bool for_good) {
  if (end_asleep()) return;
  // The drain thread starts the journal over under this lock only, so this thread keeps its lane.
  const std::lock_guard drain_lock(shared_.lock);
  record::ThreadState* thread = record::this_thread();
  if (for_good) record::close_gate();
  const Standstill standstill;
  const std::lock_guard lock(Journal::instance().backing());
  if (thread != nullptr) {
    record::close_everything(*thread);
  } else {
    keeper_.keep_file();  // no lane is free: the scopes stay in the journal
  }
  Journal::instance().leave_session();
}

void Session::finish() {
  loop_.finish();
  captures_.stop_writing();
  if (!awaits_exit_status_ || !keeper_.all_written()) return;
  if (std::string file = sinks_.found_in(); !file.empty()) amend_at_exit(std::move(file), root_id_);
}

void Session::release() {
  Journal& journal = Journal::instance();
  {
    const Standstill standstill;
    const bool had_file = journal.on_file();
    keeper_.release();
    {
      const std::lock_guard lock(shared_.lock);
      transfer_.start_over_if_lost();
      if (had_file && !journal.on_file() && !keeper_.all_written()) transfer_.leave_unread();
    }
    record::forget_root();  // a journal that starts over has the root of its session open
    sinks_.abandon();
    {
      // Threads that end write although the gate is closed.
      const std::scoped_lock lock(shared_.lock, journal.backing());
      shared_.drainer.release_blocks();
    }
    journal.end_session();
  }
  keeper_.say_lost_pages();
  unwatch_termination();
}

// On the drain thread, where a signal asks the process to end.
void Session::end_by_signal() {
  try {
    const std::uint64_t until_ns = termination_deadline_ns();
    if (options_.on_termination) options_.on_termination(until_ns);
    const bool hung_up = termination_requested() == SIGHUP;
    const char* const signal = hung_up ? "\"SIGHUP\"" : "\"SIGTERM\"";
    const std::string how = '"' + std::string(base::kEndedBySignal) + '"';
    attributes().set(
        {{std::string(base::kEndedByAttr), how}, {std::string(base::kSignalAttr), signal}});
    close_scopes(true);  // recording ends here, so that the last tick sees all of it
    loop_.last_tick(DrainLoop::on_signal(until_ns));
    keeper_.end_by_signal();
    base::await_host_thread(std::min(until_ns, base::deadline_after(kMessagesPatienceNs)));
  } catch (...) {
    // The journal still has everything.
  }
  die_by_termination();
}

Counters Session::counters() const {
  Counters all;
  all.mode = Counters::Mode::kNormal;
  sinks_.count(all);
  captures_.count(all);
  transfer_.count(all);
  keeper_.count(all);
  return all;
}

}  // namespace sonde::session
