// From the rings to a file: how fast the drain thread is, and whether it keeps up.
#include "engine/session/drainer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/engine/recording.h"
#include "engine/record/mark.h"
#include "engine/record/scope.h"
#include "engine/spool/directory.h"

namespace sonde::bench {

namespace {

// Few enough not to wake the drain thread before flush() does, so that the whole drain is timed.
constexpr int kSpans = 15'000;
constexpr int kPairs = kSpans / 2;

void record_spans(int count) {
  for (int i = 0; i < count; ++i) {
    SONDE_SCOPE("forward");
  }
}

void record_pairs(int count) {
  const std::uint32_t name = record::intern("loss");
  for (int i = 0; i < count; ++i) {
    SONDE_SCOPE("step");
    if (record::ThreadState* thread = record::this_thread())
      record::write_float(*thread, *thread->lane, name, 0.5);
  }
}

template <typename Record, typename Drain>
void time_drain(benchmark::State& state, int spans, Record record, Drain drain) {
  const std::uint64_t dropped = dropped_records();
  record(spans);
  drain();  // the buffers of a session grow with the first batch
  for (auto _ : state) {
    record(spans);
    const std::uint64_t start = base::monotonic_ns();
    drain();
    state.SetIterationTime(static_cast<double>(base::monotonic_ns() - start) * 1e-9);
  }
  state.SetItemsProcessed(state.iterations() * spans);
  if (dropped_records() != dropped) state.SkipWithError("records were dropped");
}

// Run it on one core (taskset): a flush is the drain thread's work and nothing else.
void repeat_drain(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Iterations(4)->Repetitions(15)->ReportAggregatesOnly(true)->Unit(
      benchmark::kMillisecond);
}

// Without a session, records are moved into memory when the trace is read.
void drain_off(benchmark::State& state) {
  time_drain(state, kSpans, record_spans, [] { session::Engine::instance().flush(); });
}
BENCHMARK(drain_off)->Apply(repeat_drain);

void drain(benchmark::State& state, Sink sink) {
  const Recording recording(sink);
  time_drain(state, kSpans, record_spans, [&] { recording.flush(); });
}
BENCHMARK_CAPTURE(drain, null, Sink::kNull)->Apply(repeat_drain);
BENCHMARK_CAPTURE(drain, spool, Sink::kSpool)->Apply(repeat_drain);

void drain_with_marks(benchmark::State& state) {
  const Recording recording(Sink::kSpool);
  time_drain(state, kPairs, record_pairs, [&] { recording.flush(); });
}
BENCHMARK(drain_with_marks)->Apply(repeat_drain);

// The same number of spans with fprintf, one by one; fewer fields than ours.
void drain_naive(benchmark::State& state) {
  const std::string path = scratch_directory("naive");
  struct Recorded {
    std::uint64_t sequence = 0, parent = 0, start_ns = 0, end_ns = 0;
  };
  std::vector<Recorded> spans;
  const auto fill = [&](int count) {
    spans.assign(static_cast<std::size_t>(count), {});
    for (Recorded& span : spans) span.start_ns = span.end_ns = span.sequence = base::monotonic_ns();
  };
  time_drain(state, kSpans, fill, [&] {
    std::FILE* file = std::fopen(path.c_str(), "w");
    for (const Recorded& span : spans) {
      std::fprintf(file,
                   "{\"id\":\"%016llx%016llx\",\"name\":\"%s\",\"parent_id\":\"%016llx%016llx\","
                   "\"index\":null,\"start_ns\":%llu,"
                   "\"end_ns\":%llu,\"cpu_ns\":null,\"gpu_ns\":null,\"memory_peak_bytes\":null,"
                   "\"thread_id\":%llu,\"pid\":%d,"
                   "\"rank\":%d,\"attrs\":{},\"mark_ids\":[]},",
                   static_cast<unsigned long long>(span.sequence),
                   static_cast<unsigned long long>(span.sequence), "forward",
                   static_cast<unsigned long long>(span.parent),
                   static_cast<unsigned long long>(span.parent),
                   static_cast<unsigned long long>(span.start_ns),
                   static_cast<unsigned long long>(span.end_ns), 139923456789504ull, 4242, 0);
    }
    std::fclose(file);
  });
  std::filesystem::remove(path);
}
BENCHMARK(drain_naive)->Apply(repeat_drain);

// The files of the live run below with nothing to encode: as many bytes, written and evicted in the
// same way. It shows how much of a core the kernel leaves for the rest.
void plain_write(benchmark::State& state) {
  constexpr std::size_t kFileBytes = 5'000'000;  // a batch of 16 Ki spans
  constexpr int kFiles = 300;
  const std::string directory = scratch_directory("plain");
  spool::Directory spool(directory, session::Options().spool_max_bytes);
  const std::string text(kFileBytes, 'x');
  for (auto _ : state) {
    const std::uint64_t start = base::monotonic_ns();
    for (int i = 0; i < kFiles; ++i) {
      if (!spool.write(i, base::random_id(), text).ok()) state.SkipWithError("cannot write");
    }
    state.SetIterationTime(static_cast<double>(base::monotonic_ns() - start) * 1e-9);
  }
  state.SetBytesProcessed(state.iterations() * kFiles * static_cast<std::int64_t>(kFileBytes));
  std::filesystem::remove_all(directory);
}
BENCHMARK(plain_write)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);

// A million spans a second for some seconds, in steps of a millisecond; the drain thread has the
// other core to itself. A producer that was held up catches up on a few steps only: more would be a
// burst at many times the rate that is asked for.
void live_at_a_million(benchmark::State& state) {
  constexpr int kPerStep = 1000;
  constexpr std::uint64_t kStepNs = 1'000'000;
  constexpr std::uint64_t kMostLateNs = 10 * kStepNs;
  const std::uint64_t steps = static_cast<std::uint64_t>(state.range(0)) * 1'000'000'000 / kStepNs;
  const Recording recording(Sink::kSpool, session::Options().flush_interval_ns);
  const std::uint64_t dropped = dropped_records();
  double last_flush_ns = 0;
  for (auto _ : state) {
    const std::uint64_t start = base::monotonic_ns();
    std::uint64_t due = start;
    for (std::uint64_t step = 0; step < steps; ++step) {
      record_spans(kPerStep);
      due += kStepNs;
      while (base::monotonic_ns() < due) {
      }
      due = std::max(due, base::monotonic_ns() - kMostLateNs);
    }
    const std::uint64_t end = base::monotonic_ns();
    recording.flush();
    last_flush_ns = static_cast<double>(base::monotonic_ns() - end);
    state.SetIterationTime(static_cast<double>(end - start) * 1e-9);
    state.SetItemsProcessed(static_cast<std::int64_t>(steps) * kPerStep);
  }
  state.counters["dropped"] = static_cast<double>(dropped_records() - dropped);
  state.counters["last_flush_ms"] = last_flush_ns * 1e-6;
}
BENCHMARK(live_at_a_million)
    ->UseManualTime()
    ->Iterations(1)
    ->Arg(5)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace sonde::bench
