// Captures for tests: made by hand, and looked for in the spool.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/trace.h"
#include "engine/session/options.h"
#include "engine/snapshot/capture.h"
#include "tests/engine/support/running_session.h"

namespace sonde::testing {

using session::Options;
using snapshot::Capture;
using snapshot::Catalogue;

inline constexpr base::Id kSpan{7, 8};

inline Capture capture_of(std::size_t tensors, const std::string& name = "w") {
  Catalogue catalogue(tensors);
  for (std::size_t i = 0; i < tensors; ++i)
    catalogue[i] = {name + std::to_string(i), "float32", {2, 3}, ""};
  Capture capture;
  capture.span_id = kSpan;
  capture.ts_ns = 5;
  capture.statistics.resize(tensors, snapshot::Statistics());
  capture.catalogue = std::make_shared<const Catalogue>(std::move(catalogue));
  return capture;
}

inline Capture capture_with_nan(const std::string& name) {
  Capture capture = capture_of(3, name);
  capture.statistics[1]->nan_count = 1;
  return capture;
}

// Ready when the test says so.
struct Switch : snapshot::Pending {
  explicit Switch(std::shared_ptr<std::atomic<bool>> on) : on_(std::move(on)) {}
  bool ready() noexcept override { return on_->load(); }
  void complete(Capture& capture, bool give_up) noexcept override {
    if (give_up) return;
    for (auto& all : capture.statistics) all.emplace().mean = 2.5;
  }
  std::shared_ptr<std::atomic<bool>> on_;
};

inline std::vector<std::string> snapshots_in(const SpoolContents& spool) {
  std::vector<std::string> all;
  for (const auto& batch : spool.batches)
    for (const model::Snapshot& snapshot : batch->snapshots) all.emplace_back(snapshot.json);
  return all;
}

inline std::size_t count_in(const std::string& directory) {
  return snapshots_in(read_spool(directory)).size();
}

// Looks every millisecond, for ten seconds at most.
template <typename Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

inline Options slow_flush(const std::string& directory) {
  Options options = spool_to(directory);
  options.flush_interval_ns = 3'600'000'000'000;
  return options;
}

}  // namespace sonde::testing
