// A scope without Python, against the two clock reads that it cannot do without.
#include "engine/record/scope.h"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/engine/recording.h"

namespace sonde::bench {

namespace {

void two_clock_reads(benchmark::State& state) {
  time_in_chunks(
      state,
      [] {
        benchmark::DoNotOptimize(base::monotonic_ns());
        benchmark::DoNotOptimize(base::monotonic_ns());
      },
      [] {});
}
BENCHMARK(two_clock_reads)->Apply(repeat);

// The simplest recorder, for comparison: a locked vector of finished spans.
class NaiveScope {
 public:
  struct Span {
    std::string name;
    std::uint64_t start_ns, end_ns;
  };
  explicit NaiveScope(const char* name) : name_(name), start_ns_(base::monotonic_ns()) {}
  NaiveScope(const NaiveScope&) = delete;
  NaiveScope& operator=(const NaiveScope&) = delete;
  ~NaiveScope() {
    const std::uint64_t end_ns = base::monotonic_ns();
    const std::lock_guard lock(mutex);
    spans.push_back({name_, start_ns_, end_ns});
  }
  static inline std::mutex mutex;
  static inline std::vector<Span> spans;

 private:
  const char* name_;
  std::uint64_t start_ns_;
};

void scope_naive(benchmark::State& state) {
  time_in_chunks(
      state, [] { const NaiveScope scope("forward"); }, [] { NaiveScope::spans.clear(); });
}
BENCHMARK(scope_naive)->Apply(repeat);

void scope(benchmark::State& state, Sink sink) {
  const Recording recording(sink);
  const std::uint64_t dropped = dropped_records();
  time_in_chunks(state, [] { SONDE_SCOPE("forward"); }, [&] { recording.flush(); });
  if (dropped_records() != dropped) state.SkipWithError("records were dropped");
}
BENCHMARK_CAPTURE(scope, off, Sink::kOff)->Apply(repeat);
BENCHMARK_CAPTURE(scope, null, Sink::kNull)->Apply(repeat);
BENCHMARK_CAPTURE(scope, spool, Sink::kSpool)->Apply(repeat);

}  // namespace

}  // namespace sonde::bench
