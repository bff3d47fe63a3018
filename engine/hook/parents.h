// The newest scopes that certainly have spans of the hooks in them. Such a scope cannot be taken
// back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/placement.h"

namespace sonde::hook {

class Parents {
 public:
  void note(std::uint64_t parent) noexcept {
    if (parent != parents_[(at_ - 1) % parents_.size()]) [[unlikely]]
      note_other(parent);
  }
  bool has(std::uint64_t sequence) const noexcept {
    return std::find(parents_.begin(), parents_.end(), sequence) != parents_.end();
  }

 private:
  SONDE_HOT void note_other(std::uint64_t parent) noexcept;

  std::uint32_t at_ = 0;
  std::array<std::uint64_t, 4> parents_ = {};
};

inline void Parents::note_other(std::uint64_t parent) noexcept {
  if (!has(parent)) parents_[at_++ % parents_.size()] = parent;
}

}  // namespace sonde::hook
