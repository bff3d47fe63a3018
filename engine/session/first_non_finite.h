// The first values of a session that are not finite: a message for people and a mark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/trace.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

// Used by the draining thread (drain_loop.h). Warns at most once about gradients and once about
// weights. They are counted apart because mixed precision finds its scale by letting gradients
// overflow. One cause is reported once: weights are not reported after the gradients that made them
// so, and nothing is reported after weights.
class FirstNonFinite {
 public:
  // Looks at a capture whose statistics are complete.
  void examine(const snapshot::Capture& capture);

  bool due() const noexcept { return !marks_due_.empty(); }
  std::vector<std::string> take_texts();
  // The marks have no ids yet. Their text is in `arena`.
  std::vector<model::Mark> take_marks(base::Arena& arena);

 private:
  struct Alarm {
    std::string tensor, attrs;
    base::Id span_id;
    std::int64_t ts_ns = 0;
  };
  bool weights_alarmed_ = false, gradients_alarmed_ = false;
  base::Id alarmed_span_;
  std::vector<std::string> texts_due_;
  std::vector<Alarm> marks_due_;
};

}  // namespace sonde::session
