// Lines on running processes. Each begins with the API that the session was started from:
//   [api] rank 1 epoch[0] - 142us {epoch_loss=0.5234}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/level.h"
#include "engine/model/live.h"

namespace sonde::report {

std::string live_line(const model::LiveSpan& span, bool several_ranks);

// That a process runs, has ended, or died, and what to do then. `directory`: as the user called it.
std::string process_line(const model::ProcessEvent& event, std::string_view directory);

// Draws what a follower sees, look by look: the processes that began, the spans that a filter
// shows, the processes that ended. A span whose level depends on scopes that are not seen yet waits
// for them.
class LiveLines {
 public:
  // `directory`: as the user called it.
  LiveLines(model::LineFilter filter, std::string directory);

  std::string draw(const model::Look& look);

 private:
  struct Waiting {
    model::LiveSpan span;
    std::uint64_t look = 0;  // in which it was first seen
  };
  bool is_decided(const model::LiveSpan& span) const;
  void add_spans(std::string& out, const model::Look& look);

  model::LineFilter filter_;
  std::string directory_;
  std::uint64_t looks_ = 0;
  std::vector<Waiting> waiting_;  // for the next look
};

std::string nothing_running_line(std::string_view directory);

// That the directory was removed while its processes were followed.
std::string directory_gone_line(std::string_view directory);

}  // namespace sonde::report
