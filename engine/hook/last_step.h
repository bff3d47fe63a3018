// Which optimizer step of an epoch is its last. Known where the number of batches is known, else
// learnt: it is likely to be the same one as in the epoch before. Each optimizer counts by itself.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sonde::hook {

class LastStep {
 public:
  // To be asked once for every step, before it is taken. `final`: the epoch's last batch is there.
  bool is_due(const void* optimizer, bool final) noexcept {
    Place& place =
        latest_ != nullptr && latest_->optimizer == optimizer ? *latest_ : find(optimizer);
    if (++place.steps == place.expected) [[unlikely]]
      return true;
    return final && place.in_final++ < kMostPerBatch;
  }
  void end_epoch() noexcept;
  // Called where an optimizer is met for the first time, perhaps again after an epoch without it,
  // in the middle of things: it may only take note.
  using Met = void (*)(const void* optimizer) noexcept;
  static void on_met(Met callback) noexcept;
  std::uint64_t optimizers() const noexcept { return places_.size(); }
  // Of this optimizer, in this epoch.
  std::uint64_t steps(const void* optimizer) const noexcept;
  // Of every optimizer that has taken any.
  std::vector<std::pair<const void*, std::uint64_t>> counts() const;

 private:
  // Inside one last batch there may be a loop of any length.
  static constexpr std::uint32_t kMostPerBatch = 4;
  static constexpr std::size_t kMostOptimizers = 32;
  struct Place {
    const void* optimizer = nullptr;  // only compared
    std::uint64_t steps = 0;          // in this epoch
    std::uint64_t expected = 0;       // in the one before; 0: not known
    std::uint32_t in_final = 0;       // in the last batch of this epoch
  };
  Place& find(const void* optimizer) noexcept;

  std::vector<Place> places_;
  Place* latest_ = nullptr;
};

}  // namespace sonde::hook
