#include "engine/snapshot/blob.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/face.h"
#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/base/thread.h"
#include "engine/snapshot/blob_file.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/safetensors.h"

namespace sonde::snapshot {

using base::LogLevel;
using base::Status;

namespace {

constexpr std::uint64_t kWorthAWarning = 100'000'000;
constexpr std::string_view kNotCopied = "blob-not-copied";  // one warning, whatever the reason
constexpr auto kGoodbye = std::chrono::seconds(2);

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

// The number after `key` in a file of /proc or /sys.
std::uint64_t number_in(const char* path, std::string_view key, std::uint64_t none) {
  std::string text;
  if (!base::read_file(path, text).ok()) return none;
  std::size_t at = text.find(key);
  if (at != std::string::npos) at = text.find_first_not_of(" \t", at + key.size());
  if (at == std::string::npos) return none;
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data() + at, text.data() + text.size(), value);
  return end.ec == std::errc() ? value : none;
}

// The memory that is free on the machine, or in the container where that is less.
std::uint64_t available_memory() {
  const std::uint64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:", kUnknown / 1024);
  const std::uint64_t machine = kilobytes * 1024;
  const std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "", kUnknown);
  if (limit == kUnknown) return machine;
  std::uint64_t used = number_in("/sys/fs/cgroup/memory.current", "", 0);
  // Files that were read are in it, and make way when memory is wanted.
  for (const char* cached : {"\ninactive_file ", "\nactive_file "})
    used -= std::min(used, number_in("/sys/fs/cgroup/memory.stat", cached, 0));
  return std::min(machine, limit > used ? limit - used : 0);
}

std::string with_commas(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

// Where every core is busy, the thread gets about a hundredth of one. With SCHED_IDLE it would get
// so little that a gigabyte takes many minutes.
void lower_priority() noexcept {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
  constexpr int kThisThread = 1, kIdleClass = 3 << 13;
  ::syscall(SYS_ioprio_set, kThisThread, 0, kIdleClass);
}

// A core that copies takes memory bandwidth and cache from the others. Copying one part of the time
// and resting for four takes a fifth of that; waiting for the disk counts as rest.
class Pace {
 public:
  void rest(const std::atomic<bool>& hurry) noexcept {
    constexpr std::uint64_t kRest = 4;
    const std::uint64_t now = base::monotonic_ns(), cpu = cpu_ns();
    const std::uint64_t worked = cpu - cpu_, waited = now - start_ - std::min(now - start_, worked);
    if (!hurry.load() && worked * kRest > waited) {
      const std::uint64_t nap = std::min<std::uint64_t>(worked * kRest - waited, 200'000'000);
      const timespec moment{0, static_cast<long>(nap)};
      ::nanosleep(&moment, nullptr);
    }
    start_ = base::monotonic_ns();
    cpu_ = cpu_ns();
  }

 private:
  static std::uint64_t cpu_ns() noexcept { return base::read_clock_ns(CLOCK_THREAD_CPUTIME_ID); }
  std::uint64_t start_ = base::monotonic_ns(), cpu_ = cpu_ns();
};

}  // namespace

// What the files of one span take together. They come one right after the other.
struct SpanSize {
  explicit SpanSize(const base::Id& span) : span_id(span) {}

  void add(Kind kind, std::span<const SafeTensor> tensors) noexcept {
    for (const SafeTensor& tensor : tensors) {
      bytes.fetch_add(tensor.bytes());
      elements[static_cast<std::size_t>(kind)].fetch_add(tensor.elements());
    }
  }
  // A parameter and its gradient count as one parameter.
  std::uint64_t parameters() const noexcept { return std::max(elements[0], elements[1]); }

  const base::Id span_id;
  std::atomic<std::uint64_t> bytes{0}, elements[2] = {0, 0};
};

struct BlobJob {
  enum class State { kWaiting, kWritten, kFailed, kGivenUp };
  base::Id span_id;
  Kind kind;
  std::unique_ptr<BlobSource> source;
  std::shared_ptr<SpanSize> size;
  std::atomic<bool> cancelled{false};
  std::atomic<State> state{State::kWaiting};
  std::string uri;  // these three before the state
  std::string problem, remedy;
};

struct BlobWriter::State : std::enable_shared_from_this<State> {
  std::string directory;
  BlobOptions options;
  std::function<void()> wake;
  std::shared_ptr<std::atomic<std::uint64_t>> taken =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<std::uint64_t> written{0}, lost{0};
  std::atomic<bool> in_a_hurry{false};

  std::mutex lock;  // guards the rest
  std::condition_variable changed;
  std::deque<std::shared_ptr<BlobJob>> jobs;
  std::shared_ptr<SpanSize> size;  // of the newest span
  bool started = false, stopping = false, ended = false;

  void start(BlobJob& job);
  void run() noexcept;
  void work_on(BlobJob& job) noexcept;
  Status write_file(BlobJob& job, std::string& path);
};

namespace {

class PendingBlob : public Pending {
 public:
  PendingBlob(std::shared_ptr<BlobJob> job, std::shared_ptr<BlobWriter::State> writer)
      : job_(std::move(job)), writer_(std::move(writer)) {}
  ~PendingBlob() override {
    if (give_up()) writer_->lost.fetch_add(1);  // its capture was dropped and never completed it
  }

  bool ready() noexcept override { return job_->state.load() != BlobJob::State::kWaiting; }

  void complete(Capture& capture, bool) noexcept override {
    give_up();
    if (job_->state.load() == BlobJob::State::kWritten) {
      capture.blob_uri = std::move(job_->uri);
      warn_of_size();
      return;
    }
    writer_->lost.fetch_add(1);
    const bool failed = job_->state.load() == BlobJob::State::kFailed;
    base::log_once(
        LogLevel::kWarning, "snapshots.blob", "blob-lost",
        failed ? job_->problem +
                     "; the raw tensors of this snapshot are lost, its statistics are kept: " +
                     job_->remedy
               : "the session ended before the raw tensors of its last snapshots were written to " +
                     writer_->directory +
                     "; they are lost, but their statistics are kept: use a faster disk or take "
                     "statistics only");
  }

 private:
  // Not before the first file is written: by then the others of its span are known.
  void warn_of_size() const noexcept {
    const std::uint64_t bytes = job_->size->bytes.load();
    if (bytes < kWorthAWarning) return;
    base::log_once(LogLevel::kWarning, "snapshots.blob", "blob-size",
                   "one snapshot takes " + with_commas(bytes) + " bytes (" +
                       with_commas(job_->size->parameters()) + " parameters) in " +
                       writer_->directory);
  }

  // True if this call ended the job.
  bool give_up() noexcept {
    job_->cancelled.store(true);
    auto waiting = BlobJob::State::kWaiting;
    return job_->state.compare_exchange_strong(waiting, BlobJob::State::kGivenUp);
  }

  std::shared_ptr<BlobJob> job_;
  std::shared_ptr<BlobWriter::State> writer_;
};

}  // namespace

BlobWriter::BlobWriter(std::string directory, BlobOptions options, std::function<void()> wake)
    : state_(std::make_shared<State>()) {
  state_->directory = std::move(directory);
  state_->options = options;
  state_->wake = std::move(wake);
}

BlobWriter::~BlobWriter() { stop(); }

void BlobWriter::stop() {
  std::unique_lock lock(state_->lock);
  state_->stopping = true;
  for (const auto& job : state_->jobs) job->cancelled.store(true);
  state_->changed.notify_all();
  const auto& state = *state_;
  state_->changed.wait_for(lock, kGoodbye, [&] { return !state.started || state.ended; });
  // The owner of this writer may be destroyed next, and `wake` may refer to it.
  state_->wake = nullptr;
}

BlobRoom BlobWriter::reserve(std::uint64_t bytes) {
  const std::uint64_t waiting = state_->taken->fetch_add(bytes);
  const std::uint64_t available = available_memory();
  const std::uint64_t most =
      std::min(state_->options.max_waiting_bytes,
               available > ~std::uint64_t{0} - waiting ? available : (available + waiting) / 4);
  if (waiting + bytes <= most) return {state_->taken, bytes};
  state_->taken->fetch_sub(bytes);
  base::log_once(LogLevel::kWarning, "snapshots.blob", kNotCopied,
                 "raw tensors of " + with_commas(bytes) + " bytes were not copied: " +
                     with_commas(waiting) + " bytes already wait to be written, and the limit is " +
                     with_commas(most) + "; the statistics are kept");
  return {};
}

void BlobWriter::lose() noexcept {
  state_->lost.fetch_add(1);
  base::log_once(LogLevel::kWarning, "snapshots.blob", kNotCopied,
                 "the raw tensors of a snapshot could not be copied because memory is short; the "
                 "statistics are kept");
}

std::unique_ptr<Pending> BlobWriter::write(const base::Id& span_id, Kind kind,
                                           std::unique_ptr<BlobSource> source) {
  auto job = std::make_shared<BlobJob>();
  job->span_id = span_id;
  job->kind = kind;
  job->source = std::move(source);
  const std::lock_guard lock(state_->lock);
  if (!state_->size || state_->size->span_id != span_id)
    state_->size = std::make_shared<SpanSize>(span_id);
  job->size = state_->size;
  job->size->add(kind, job->source->tensors());
  if (state_->stopping) job->state.store(BlobJob::State::kGivenUp);
  if (!state_->started && !state_->stopping) state_->start(*job);
  if (state_->started && !state_->stopping) state_->jobs.push_back(job);
  state_->changed.notify_all();
  return std::make_unique<PendingBlob>(std::move(job), state_);
}

void BlobWriter::hurry() noexcept { state_->in_a_hurry.store(true); }

std::uint64_t BlobWriter::written() const noexcept { return state_->written.load(); }
std::uint64_t BlobWriter::lost() const noexcept { return state_->lost.load(); }

// Detached: it owns what it needs, and a disk that does not answer must not hold up the host's end.
// If no thread can be started, this job is lost; the next one tries again.
void BlobWriter::State::start(BlobJob& job) {
  const Status status =
      base::start_detached_thread("sonde-blob", [self = shared_from_this()] { self->run(); });
  started = status.ok();
  if (started) return;
  job.source.reset();  // a copy of the tensors is much to keep for nothing
  job.problem = status.text();
  job.remedy = base::face().advise("no-thread");
  job.state.store(BlobJob::State::kFailed);
}

void BlobWriter::State::run() noexcept {
  lower_priority();
  BlobFile::clean(directory);
  std::unique_lock hold(lock);
  for (;;) {
    changed.wait(hold, [this] { return stopping || !jobs.empty(); });
    if (jobs.empty()) break;
    const std::shared_ptr<BlobJob> job = jobs.front();
    hold.unlock();
    work_on(*job);
    hold.lock();
    jobs.pop_front();
    if (wake) wake();
  }
  ended = true;
  changed.notify_all();
}

void BlobWriter::State::work_on(BlobJob& job) noexcept {
  Status status;
  std::string path;
  try {
    status = write_file(job, path);
    if (status.ok()) job.uri = file_uri(path);
  } catch (const std::exception&) {
    status = {ENOMEM, "cannot write a snapshot"};
  }
  job.source.reset();
  if (!status.ok()) {
    job.problem = status.text();
    job.remedy = "free space or make " + directory + " writable, if that is the reason";
  }
  auto waiting = BlobJob::State::kWaiting;
  const bool wanted = job.state.compare_exchange_strong(
      waiting, status.ok()                   ? BlobJob::State::kWritten
               : status.error() == ECANCELED ? BlobJob::State::kGivenUp
                                             : BlobJob::State::kFailed);
  if (!status.ok()) return;
  // A file that no record will name is of no use.
  if (wanted) {
    written.fetch_add(1);
  } else {
    ::unlink(path.c_str());
  }
}

Status BlobWriter::State::write_file(BlobJob& job, std::string& path) {
  const std::string head = safetensors_head(job.source->tensors());
  std::uint64_t bytes = head.size();
  for (const SafeTensor& tensor : job.source->tensors()) bytes += tensor.bytes();
  BlobFile file;
  if (Status status = file.open(directory, bytes); !status.ok()) return status;
  std::span<const std::byte> piece = std::as_bytes(std::span(head));
  Pace pace;
  for (std::uint64_t done = 0; !piece.empty();) {
    if (job.cancelled.load()) return {ECANCELED, "cannot finish a snapshot"};
    if (Status status = file.append(piece); !status.ok()) return status;
    done += piece.size();
    pace.rest(in_a_hurry);
    if (Status status = job.source->next(piece); !status.ok()) return status;
    if (piece.empty() && done != bytes) return {EIO, "cannot read all tensors of a snapshot"};
  }
  char folder[32];
  base::write_hex(job.span_id, folder);
  return file.publish({folder, sizeof folder}, kind_name(job.kind), path);
}

std::string file_uri(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string uri = "file://";
  for (const char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      constexpr char kHex[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      uri += '%';
      uri += kHex[byte >> 4];
      uri += kHex[byte & 15];
    }
  }
  return uri;
}

}  // namespace sonde::snapshot
