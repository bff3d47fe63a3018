#include "engine/session/engine.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/deadline.h"
#include "engine/base/host_thread.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/put_off.h"
#include "engine/base/swallowed.h"
#include "engine/base/thread.h"
#include "engine/model/trace.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/session/attributes.h"
#include "engine/session/counters.h"
#include "engine/session/drainer.h"
#include "engine/session/memory.h"
#include "engine/session/moved.h"
#include "engine/session/options.h"
#include "engine/session/session.h"
#include "engine/session/shared.h"
#include "engine/session/signals.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

struct Engine::State {
  Shared shared;
  std::shared_ptr<Session> session;
  Counters last;  // of the session that ended
  std::uint64_t damaged_earlier = 0;
  std::atomic<std::uint64_t> late_snapshots{0};  // came when no session was open
  bool fresh = true;                             // nothing in memory belongs to an ended session
  bool slept_at_fork = false;
};

Engine& Engine::instance() {
  static auto* engine = new Engine;  // never destroyed: threads record until the very end
  return *engine;
}

Engine::Engine() {
  record::open_gate();
  state_ = new State;
  // Registered after the journal's own handlers, so that the child's journal is clean when this
  // runs.
  pthread_atfork(nullptr, nullptr, [] { Engine::instance().forget_after_fork(); });
}

void Engine::forget_after_fork() noexcept {
  forget_termination();
  base::reset_log_after_fork();
  base::reset_host_thread_after_fork();
  base::reset_swallowed_after_fork();
  const bool slept = state_->session && state_->session->asleep();
  state_ = new State;  // the old one may be locked by a thread that does not exist here: leave it
  state_->slept_at_fork = slept;
}

// A flush in another thread may outlive the session it began in.
std::shared_ptr<Session> Engine::session() const {
  const std::lock_guard lock(state_->shared.lock);
  return state_->session;
}

bool Engine::active() const noexcept { return state_->session != nullptr; }
bool Engine::slept_at_fork() const noexcept { return state_->slept_at_fork; }

void Engine::awaken_session() noexcept {
  if (const auto current = instance().session()) current->awaken();
}

void Engine::start(Options options) {
  if (state_->session) return;
  base::reset_log();
  base::reset_swallowed();
  state_->late_snapshots.store(0);
  {
    const std::lock_guard lock(state_->shared.lock);
    if (!state_->fresh) state_->shared.memory.clear();
    state_->shared.memory.set_capacity(options.trace_max_spans);
  }
  const auto fresh = std::make_shared<Session>(state_->shared, std::move(options));
  const auto make_known = [&](std::shared_ptr<Session> session) {
    const std::lock_guard lock(state_->shared.lock);
    state_->session = std::move(session);
  };
  // Made known before it begins: from then on flush() must leave the rings to the session, and a
  // thread that wakes the session has to find it.
  make_known(fresh);
  try {
    fresh->begin();
  } catch (...) {  // no memory
    make_known(nullptr);
    throw;
  }
}

void Engine::annotate(const std::vector<Attributes::Member>& members) {
  if (const auto current = session()) current->attributes().set(members);
}

void Engine::await_exit_status() {
  if (const auto current = session()) current->await_exit_status();
}

bool Engine::put_off_stop(std::function<void()> stop) { return base::put_off(std::move(stop)); }

bool Engine::hands_over() noexcept { return base::t_calls_host; }

void Engine::await_messages() noexcept {
  constexpr std::uint64_t kPatienceNs = 2'000'000'000;
  base::await_host_thread(base::deadline_after(kPatienceNs));
}

void Engine::begin_stop() {
  if (state_->session) state_->session->close_scopes();
}

void Engine::await_stop() {
  if (const auto current = session()) current->finish();
}

std::shared_ptr<void> Engine::finish_stop() {
  if (!state_->session) return nullptr;
  state_->last = counters();
  state_->last.mode = Counters::Mode::kStopped;
  state_->last.journal.clear();
  state_->last.journal_bytes = 0;
  const base::EngineWork work;  // a log handler may need the GIL, which the caller holds
  state_->session->release();
  const std::lock_guard lock(state_->shared.lock);
  state_->shared.lost_earlier = record::total_losses();
  state_->damaged_earlier = state_->shared.drainer.damaged();
  state_->fresh = false;
  // The caller drops it without the lock: a sink may read the trace when it goes.
  return std::exchange(state_->session, nullptr);
}

snapshot::BlobRoom Engine::reserve_blob(std::uint64_t bytes) {
  const auto current = session();
  return current ? current->reserve_blob(bytes) : snapshot::BlobRoom();
}

void Engine::add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                         bool more) {
  if (const auto current = session())
    return current->add_capture(std::move(capture), std::move(blob), more);
  state_->late_snapshots.fetch_add(capture.size());
}

void Engine::flush() {
  std::shared_ptr<Session> current;
  {
    // One lock for the question and the answer: a session that begins in between would have its
    // records taken away.
    const std::lock_guard lock(state_->shared.lock);
    current = state_->session;
    if (!current && record::Journal::instance().room_is_short()) move_to_memory();
  }
  if (current) current->flush();
}

// Without a session, the drain lock is held.
void Engine::move_to_memory() {
  model::Batch batch;
  Moved moved;
  state_->shared.drainer.begin_pass();
  state_->shared.drainer.collect(~std::size_t{0}, batch, moved);
  if (!state_->fresh && !batch.empty()) {
    state_->shared.memory.clear();  // as in read()
    state_->fresh = true;
  }
  state_->shared.memory.add(batch);
  commit(moved);
}

// Runs `work` on all that is held. Without a session that is the memory and what the rings hold.
template <typename Read>
void Engine::read(Read work) {
  const std::lock_guard lock(state_->shared.lock);
  Memory& memory = state_->shared.memory;
  model::Batch waiting;
  if (!state_->session) state_->shared.drainer.peek(waiting);
  if (waiting.empty()) return work(memory);
  if (!state_->fresh) {
    // The first thing recorded after a session: the trace of that session is not shown any more.
    memory.clear();
    state_->fresh = true;
  }
  Memory both;
  both.set_capacity(memory.capacity());
  model::Batch earlier;
  memory.copy_all(earlier);
  both.add(earlier);
  both.add(waiting);
  work(both);
}

std::uint64_t Engine::read_trace(model::Batch& out, MarksAs how) {
  std::uint64_t evicted = 0;
  read([&](const Memory& memory) {
    evicted = memory.evicted();
    memory.copy_to(out, how);
    const std::size_t first = out.spans.size();
    state_->shared.drainer.append_open(out);
    for (std::size_t i = first; i < out.spans.size(); ++i)
      memory.add_open_marks(out.spans[i], out, how);
  });
  return evicted;
}

void Engine::forget_trace() {
  const std::lock_guard lock(state_->shared.lock);
  state_->shared.memory.clear();
  state_->fresh = true;
}

void Engine::read_mark_ids(const base::Id& span, std::vector<base::Id>& out) {
  read([&](const Memory& memory) { memory.mark_ids(span, out); });
}

Counters Engine::counters() const {
  if (!state_->session) {
    Counters last = state_->last;
    last.dropped_snapshots += state_->late_snapshots.load();
    last.swallowed = base::swallowed_errors();
    return last;
  }
  Counters all = state_->session->counters();
  const record::Losses losses = record::total_losses().since(state_->shared.lost_earlier);
  all.dropped_scopes = losses.depth;
  all.dropped_spans = losses.spans;
  all.dropped_marks = losses.marks;
  all.damaged_records = state_->shared.drainer.damaged() - state_->damaged_earlier;
  all.swallowed = base::swallowed_errors();
  return all;
}

}  // namespace sonde::session
