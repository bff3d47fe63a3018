// Keeps marks until their span closes: in a stream they come before it, often minutes before.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::run {

class MarkKeeper {
 public:
  struct Taken {
    std::vector<model::Mark> marks;  // in order of time
    std::size_t dropped = 0;         // older ones
  };

  // Copies the mark. Of one span only the newest are kept. They may come in any order: what is
  // still in a journal is read before what is stored.
  void keep(const model::Mark& mark);
  // Hands out the marks of a span, with their text in the arena, and forgets them.
  Taken take(const base::Id& span, base::Arena& arena);

 private:
  struct OwnedMark {
    model::Mark mark;
    std::string name, text, attrs;
  };
  struct OfSpan {
    std::deque<OwnedMark> kept;  // in order of time
    std::size_t dropped = 0;
  };
  std::unordered_map<base::Id, OfSpan, base::IdHash> by_span_;
  std::size_t kept_ = 0;
};

}  // namespace sonde::run
