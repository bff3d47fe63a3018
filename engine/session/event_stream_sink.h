// Each batch as JSON to a function of the host's: how a platform that reads the program's standard
// output gets it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/session/outgoing_batch.h"
#include "engine/session/sink.h"

namespace sonde::session {

class EventStreamSink : public Sink {
 public:
  using Write = std::function<void(std::string_view json)>;

  explicit EventStreamSink(Write write) : write_(std::move(write)) {}

  std::string_view name() const noexcept override { return "event stream"; }
  Needs needs() const noexcept override { return {.snapshots = true}; }
  void accept(const std::shared_ptr<const OutgoingBatch>& batch) override { write_(batch->json()); }
  bool flush(std::uint64_t, bool) override { return true; }

 private:
  Write write_;
};

}  // namespace sonde::session
