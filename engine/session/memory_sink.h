// The newest spans in memory, for trace().
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "engine/session/outgoing_batch.h"
#include "engine/session/shared.h"
#include "engine/session/sink.h"

namespace sonde::session {

class MemorySink : public Sink {
 public:
  explicit MemorySink(Shared& shared) : shared_(shared) {}

  std::string_view name() const noexcept override { return "memory"; }
  void accept(const std::shared_ptr<const OutgoingBatch>& batch) override {
    const std::lock_guard lock(shared_.lock);
    shared_.memory.add(batch->records);
  }
  bool flush(std::uint64_t, bool) override { return true; }

 private:
  Shared& shared_;
};

}  // namespace sonde::session
