// Shared by the engine's benches: a sink to record into, and timing in chunks.
#pragma once

#include <benchmark/benchmark.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/record/lane.h"
#include "engine/session/engine.h"
#include "engine/session/options.h"

namespace sonde::bench {

enum class Sink {
  kOff,    // the gate is closed: what enabled=False costs
  kNull,   // a session that writes nothing and keeps a single span: output="none"
  kSpool,  // a journal and batch files, as by default
};

inline std::string scratch_directory(const char* purpose) {
  return (std::filesystem::temp_directory_path() /
          (std::string("sonde-bench-") + purpose + "-" + std::to_string(::getpid())))
      .string();
}

inline void pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// The first and the last processor this process may use.
inline std::pair<int, int> outer_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  int first = -1, last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    if (first < 0) first = cpu;
    last = cpu;
  }
  return {first, last};
}

// A session that writes to one of the sinks while this object lives. Its drain thread runs on
// another processor than the caller, as in a training program. Every record then goes to a cache
// line that the other processor has just read, which is the real cost of recording. The scheduler
// would let both share a processor in some runs and not in others, and the numbers would differ by
// a factor of two.
class Recording {
 public:
  static constexpr std::uint64_t kOnlyWhenAsked = 3'600'000'000'000;

  explicit Recording(Sink sink, std::uint64_t flush_interval_ns = kOnlyWhenAsked)
      : sink_(sink), directory_(scratch_directory("session")) {
    session::Engine& engine = session::Engine::instance();  // opens the gate
    if (sink == Sink::kOff) {
      record::close_gate();
      return;
    }
    session::Options options;
    options.handle_signals = false;
    options.flush_interval_ns = flush_interval_ns;
    if (sink == Sink::kSpool) {
      options.output_dir = directory_;
    } else {
      options.trace_max_spans = 1;
    }
    pin_this_thread(cpus_.second);  // the new thread inherits it
    engine.start(options);
    pin_this_thread(cpus_.first);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (sink_ == Sink::kOff) {
      record::open_gate();
      return;
    }
    session::Engine& engine = session::Engine::instance();
    engine.begin_stop();
    engine.await_stop();
    engine.finish_stop();
    std::filesystem::remove_all(directory_);
  }

  void flush() const {
    if (sink_ != Sink::kOff) session::Engine::instance().flush();
  }
  const std::string& directory() const { return directory_; }

 private:
  inline static const std::pair<int, int> cpus_ = outer_cpus();
  Sink sink_;
  std::string directory_;
};

inline std::uint64_t dropped_records() {
  const record::Losses losses = record::total_losses();
  return losses.spans + losses.marks + losses.depth;
}

inline constexpr int kChunk = 1000;

// Times `body` in chunks of 1,000 and does `between` outside the timing, so that the rings are
// drained and no record is ever dropped: a dropped record would be cheaper than a written one. The
// time reported is that of one call.
template <typename Body, typename Between>
void time_in_chunks(benchmark::State& state, Body body, Between between) {
  for (auto _ : state) {
    const std::uint64_t start = base::monotonic_ns();
    for (int i = 0; i < kChunk; ++i) body();
    state.SetIterationTime(static_cast<double>(base::monotonic_ns() - start) * 1e-9 / kChunk);
    between();
  }
}

// Many short repetitions of everything in random order: a disturbance hits few of them, and medians
// of neighbours in time are compared.
inline void repeat(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Iterations(10)->Repetitions(40)->ReportAggregatesOnly(true)->Unit(
      benchmark::kNanosecond);
}

}  // namespace sonde::bench
