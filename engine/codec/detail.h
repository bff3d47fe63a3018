// How much of a batch a reader wants.
#pragma once

namespace sonde::codec {

enum class Detail {
  kAll,            // all that is known of spans, marks and tensors, histograms included
  kSpansAndMarks,  // what a trace needs: snapshots are passed over
  // Of spans only ids, names, times, pids and ranks. Attributes only of sessions, epochs and steps,
  // and those that say how to read a span. A summary of gigabytes needs no more.
  kTimings,
  kTensors,  // only snapshots, with their statistics, but without their histograms
};

constexpr bool wants_spans(Detail detail) noexcept { return detail != Detail::kTensors; }
constexpr bool wants_marks(Detail detail) noexcept {
  return detail == Detail::kAll || detail == Detail::kSpansAndMarks;
}
constexpr bool wants_tensors(Detail detail) noexcept {
  return detail == Detail::kAll || detail == Detail::kTensors;
}

}  // namespace sonde::codec
