// Closed spans as lines of text, for one target: standard output, or the log.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/level.h"
#include "engine/model/trace.h"
#include "engine/session/line_outlet.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/sink.h"

namespace sonde::session {

// A span whose level depends on scopes that are neither open nor drained yet waits for them.
class LineSink : public Sink {
 public:
  // At least one outlet, all of one target. `prefix` is what each line begins with.
  LineSink(std::vector<LineOutlet> outlets, std::string prefix)
      : outlets_(std::move(outlets)), prefix_(std::move(prefix)) {}

  std::string_view name() const noexcept override { return outlets_.front().target; }
  Needs needs() const noexcept override { return {.context = true}; }
  // Announcements go to every outlet, whatever its filter; then each span with its newest marks.
  void accept(const std::shared_ptr<const OutgoingBatch>& batch) override;
  // Lines that have waited for too long, or at the end all of them, are written with what is known
  // of their place.
  bool flush(std::uint64_t deadline_ns, bool last) override;

 private:
  struct Held {
    std::string name, line;
    model::Place place;
    std::uint64_t since_ns = 0;
    std::uint64_t pass = 0;
  };

  void write(const OutgoingBatch& batch);
  void know(const OutgoingBatch& batch);
  void settle_held();
  void add(const std::string& name, const std::string& line, const model::Place& place);
  void hand_out();

  std::vector<LineOutlet> outlets_;
  std::string prefix_;
  std::vector<std::vector<std::string>> due_;  // for each outlet
  model::Surroundings around_;
  std::deque<Held> held_;
  std::uint64_t pass_ = 0;
};

}  // namespace sonde::session
