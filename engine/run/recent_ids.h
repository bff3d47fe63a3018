// Remembers which ids of a stream came up. The stream is looked at again and again, and a look
// brings some ids that earlier looks have brought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "engine/base/id.h"

namespace sonde::run {

class RecentIds {
 public:
  // How many are remembered at least. Beyond, the oldest are forgotten, but only those that the
  // last look did not meet: what it met may come up in the next one, too.
  explicit RecentIds(std::size_t kept = std::size_t{1} << 20) : kept_(kept) {}

  // False when the id is known already.
  bool add(const base::Id& id) {
    const auto [known, fresh] = met_in_.insert_or_assign(id, look_);
    if (fresh) order_.push_back(known->first);
    return fresh;
  }

  // A look has seen everything that there is.
  void end_look() {
    std::vector<base::Id> met;
    while (met_in_.size() > kept_ && !order_.empty()) {
      const auto oldest = met_in_.find(order_.front());
      if (oldest->second == look_) {
        met.push_back(oldest->first);
      } else {
        met_in_.erase(oldest);
      }
      order_.pop_front();
    }
    order_.insert(order_.begin(), met.begin(), met.end());
    ++look_;
  }

 private:
  std::size_t kept_;
  std::uint64_t look_ = 0;
  std::unordered_map<base::Id, std::uint64_t, base::IdHash> met_in_;  // the newest look with it
  std::deque<base::Id> order_;                                        // by first sight
};

}  // namespace sonde::run
