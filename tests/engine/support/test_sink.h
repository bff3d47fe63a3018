// A sink that does what a test says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/record/journal.h"
#include "engine/session/options.h"
#include "engine/session/sink.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/spans.h"

namespace sonde::testing {

inline void record_many(int count) {
  for (int i = 0; i < count; ++i) close(open("x"));
}

class TestSink : public session::Sink {
 public:
  std::function<void(const session::OutgoingBatch&)> on_accept = [](const session::OutgoingBatch&) {
  };
  std::function<bool(std::uint64_t, bool)> on_flush = [](std::uint64_t, bool) { return true; };
  std::function<void(session::Counters&)> on_count = [](session::Counters&) {};
  Needs wanted;
  std::shared_ptr<const session::OutgoingBatch> last_batch;

  std::string_view name() const noexcept override { return "test"; }
  Needs needs() const noexcept override { return wanted; }
  void accept(const std::shared_ptr<const session::OutgoingBatch>& batch) override {
    last_batch = batch;
    on_accept(*batch);
  }
  bool flush(std::uint64_t deadline_ns, bool last) override { return on_flush(deadline_ns, last); }
  void count(session::Counters& all) const override { on_count(all); }
};

inline session::Options with_sink(session::Options options, const std::shared_ptr<TestSink>& sink) {
  options.more_sinks.push_back(sink);
  return options;
}

// How far the rings of all threads are committed.
inline std::uint64_t committed() {
  std::uint64_t slots = 0;
  record::Journal& journal = record::Journal::instance();
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) slots += journal.lane(i).tail.position;
  return slots;
}

}  // namespace sonde::testing
