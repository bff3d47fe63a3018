// Closed spans as lines, for output="stdout" and output="log".
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "engine/model/level.h"
#include "engine/model/trace.h"

namespace sonde::session {

using LineWriter = std::function<void(const std::vector<std::string>&)>;

// Who gets lines, and which.
struct LineOutlet {
  model::LineFilter filter;
  LineWriter write;
};

// For the drain thread. A span whose level depends on scopes that are neither open nor drained yet
// waits for them.
class Lines {
 public:
  explicit Lines(std::vector<LineOutlet> outlets) : outlets_(std::move(outlets)) {}

  bool wanted() const noexcept { return !outlets_.empty(); }
  // Each span of `batch` with its newest marks, whether they came with it or `earlier`. `open`: the
  // scopes that were open when the batch was drained, or later.
  void write(const model::Batch& batch, const model::Batch& earlier, const model::Batch& open);
  // To everybody, whatever they want to see.
  void announce(const std::string& line) const;
  // Everything that was recorded by some moment has been drained. What has waited for long, or all
  // there is, is written with what is known.
  void end_pass(bool last);

 private:
  struct Held {
    std::string name, line;
    model::Place place;
    std::uint64_t since_ns = 0;
    std::uint64_t pass = 0;
  };

  void know(const model::Batch& batch, const model::Batch& open);
  void settle_held();
  void add(const std::string& name, const std::string& line, const model::Place& place);
  void hand_out();

  std::vector<LineOutlet> outlets_;
  std::vector<std::vector<std::string>> due_;  // for each outlet
  model::Surroundings around_;
  std::deque<Held> held_;
  std::uint64_t pass_ = 0;
};

}  // namespace sonde::session
