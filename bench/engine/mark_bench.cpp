// A mark without Python, against the one clock read that it cannot do without.
#include "engine/record/mark.h"

#include <mutex>
#include <string>
#include <vector>

#include "bench/engine/recording.h"
#include "engine/record/scope.h"

namespace sonde::bench {

namespace {

void one_clock_read(benchmark::State& state) {
  time_in_chunks(state, [] { benchmark::DoNotOptimize(base::monotonic_ns()); }, [] {});
}
BENCHMARK(one_clock_read)->Apply(repeat);

struct NaiveMark {
  std::string name;
  double value;
  std::uint64_t ts_ns;
};

void mark_naive(benchmark::State& state) {
  std::mutex mutex;
  std::vector<NaiveMark> marks;
  time_in_chunks(
      state,
      [&] {
        const std::lock_guard lock(mutex);
        marks.push_back({"loss", 0.5, base::monotonic_ns()});
      },
      [&] { marks.clear(); });
}
BENCHMARK(mark_naive)->Apply(repeat);

void mark(benchmark::State& state, Sink sink) {
  const Recording recording(sink);
  const std::uint64_t dropped = dropped_records();
  const std::uint32_t name = record::intern("loss");
  SONDE_SCOPE("step");
  time_in_chunks(
      state,
      [&] {
        if (record::ThreadState* thread = record::this_thread())
          record::write_float(*thread, *thread->lane, name, 0.5);
      },
      [&] { recording.flush(); });
  if (dropped_records() != dropped) state.SkipWithError("records were dropped");
}
BENCHMARK_CAPTURE(mark, off, Sink::kOff)->Apply(repeat);
BENCHMARK_CAPTURE(mark, null, Sink::kNull)->Apply(repeat);
BENCHMARK_CAPTURE(mark, spool, Sink::kSpool)->Apply(repeat);

}  // namespace

}  // namespace sonde::bench
