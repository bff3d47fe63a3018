// A batch of spans as JSON: the encoder alone, and with the file it ends up in.
#include "engine/codec/encode.h"

#include <filesystem>
#include <iomanip>
#include <sstream>

#include "bench/engine/recording.h"
#include "engine/spool/directory.h"

namespace sonde::bench {

namespace {

constexpr int kSpans = 10'000;

// Spans as a training loop leaves them: short names, an index, a parent, a mark on every fourth.
model::Batch make_batch() {
  model::Batch batch;
  const base::Id key = base::random_id();
  batch.batch_id = base::random_id();
  batch.created_ns = base::wall_clock_ns();
  for (int i = 0; i < kSpans; ++i) {
    model::Span span;
    span.id = base::make_id(key, static_cast<std::uint64_t>(i) + 1);
    span.parent_id = base::make_id(key, static_cast<std::uint64_t>(i) / 4 + kSpans);
    span.name = i % 4 == 0 ? "batch" : "forward";
    if (i % 4 == 0) span.index = i / 4;
    span.start_ns = batch.created_ns + std::int64_t{i} * 1000;
    span.end_ns = span.start_ns + 750;
    span.thread_id = 139'923'456'789'504;
    span.pid = 4242;
    if (i % 4 == 0) {
      span.first_mark_id = static_cast<std::uint32_t>(batch.mark_ids.size());
      span.mark_id_count = 1;
      model::Mark mark;
      mark.id = base::make_id(key, static_cast<std::uint64_t>(i) + 2 * kSpans);
      mark.span_id = span.id;
      mark.name = "loss";
      mark.real = 1.0 / (i + 1);
      mark.ts_ns = span.end_ns;
      batch.mark_ids.push_back(mark.id);
      batch.marks.push_back(mark);
    }
    batch.spans.push_back(span);
  }
  return batch;
}

void report(benchmark::State& state, std::size_t bytes) {
  state.SetItemsProcessed(state.iterations() * kSpans);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

std::string naive_id(const base::Id& id) {
  std::ostringstream out;
  out << '"' << std::hex << std::setfill('0') << std::setw(16) << id.hi << std::setw(16) << id.lo
      << '"';
  return out.str();
}

// Streams, one span after the other; no mark ids, no escapes: less work than ours.
void encode_naive(benchmark::State& state) {
  const model::Batch batch = make_batch();
  std::size_t bytes = 0;
  for (auto _ : state) {
    std::ostringstream out;
    for (const model::Span& span : batch.spans) {
      out << "{\"id\":" << naive_id(span.id) << ",\"name\":\"" << span.name
          << "\",\"parent_id\":" << naive_id(span.parent_id) << ",\"index\":" << span.index
          << ",\"start_ns\":" << span.start_ns << ",\"end_ns\":" << span.end_ns
          << ",\"cpu_ns\":null,\"gpu_ns\":null,\"memory_peak_bytes\":null,\"thread_id\":"
          << span.thread_id << ",\"pid\":" << span.pid << ",\"rank\":" << span.rank
          << ",\"attrs\":{" << span.attrs << "},\"mark_ids\":[]},";
    }
    const std::string text = out.str();
    benchmark::DoNotOptimize(text.data());
    bytes = text.size();
  }
  report(state, bytes);
}
BENCHMARK(encode_naive);

void encode_null(benchmark::State& state) {
  const model::Batch batch = make_batch();
  base::JsonWriter out;
  for (auto _ : state) {
    out.clear();
    codec::encode_batch(out, batch);
    benchmark::DoNotOptimize(out.view().data());
  }
  report(state, out.size());
}
BENCHMARK(encode_null);

void encode_spool(benchmark::State& state) {
  model::Batch batch = make_batch();
  const std::string directory = scratch_directory("encode");
  constexpr std::uint64_t kKeepBytes = 64u << 20;
  spool::Directory spool(directory, kKeepBytes);
  base::JsonWriter out;
  for (auto _ : state) {
    out.clear();
    ++batch.created_ns;
    codec::encode_batch(out, batch);
    if (!spool.write(batch.created_ns, batch.batch_id, out.view()).ok())
      state.SkipWithError("cannot write");
  }
  report(state, out.size());
  std::filesystem::remove_all(directory);
}
BENCHMARK(encode_spool);

}  // namespace

}  // namespace sonde::bench
