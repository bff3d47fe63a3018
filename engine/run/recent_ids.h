// Remembers the newest ids of a stream.
#pragma once

#include <cstddef>
#include <deque>
#include <unordered_set>

#include "engine/base/id.h"

namespace sonde::run {

class RecentIds {
 public:
  // False when the id is known already.
  bool add(const base::Id& id) {
    if (!ids_.insert(id).second) return false;
    order_.push_back(id);
    if (order_.size() > kKept) {
      ids_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  static constexpr std::size_t kKept = std::size_t{1} << 20;
  std::unordered_set<base::Id, base::IdHash> ids_;
  std::deque<base::Id> order_;
};

}  // namespace sonde::run
