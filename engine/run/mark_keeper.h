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
  // Copies the mark. Of one span only the newest are kept.
  void keep(const model::Mark& mark);
  // Hands out the marks of a span, with their text in the arena, and forgets them.
  std::vector<model::Mark> take(const base::Id& span, base::Arena& arena);

 private:
  struct OwnedMark {
    model::Mark mark;
    std::string name, text, attrs;
  };
  std::unordered_map<base::Id, std::deque<OwnedMark>, base::IdHash> by_span_;
  std::size_t kept_ = 0;
};

}  // namespace sonde::run
