// Which optimizer steps of an epoch have their gradients measured: the last one, where it is known
// (from the number of batches) or likely (as many steps as in the epoch before). An epoch may be
// cut short, so its first step is measured too, and later ones whenever measuring has become cheap
// compared with the time that has passed; the newest measurement counts. Each optimizer has its own
// count.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sonde::hook {

class LastStep {
 public:
  // To be asked once for every step, before it is taken. `final`: the epoch's last batch is there.
  bool is_due(const void* optimizer, bool final) noexcept {
    Place& place = is_it(latest_, optimizer) ? *latest_ : find(optimizer);
    if (++place.steps < place.look && !final) [[likely]]
      return false;
    return look_at(place, final);
  }
  // Was this optimizer's newest step due because it is likely to be the epoch's last?
  bool is_likely_last(const void* optimizer) const noexcept;
  // It was measured, from then to then. Without this the next ones are due at 2, 4, 8, ...
  void measured(const void* optimizer, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
  // What was measured in this epoch is worth nothing: the next step of every optimizer is due.
  void measure_again() noexcept;
  void end_epoch() noexcept;
  // Called where an optimizer is met for the first time, in the middle of things: it may only take
  // note.
  using Met = void (*)(const void* optimizer) noexcept;
  static void on_met(Met callback) noexcept;
  // It was freed: what comes at the same address is another one.
  static void gone(const void* optimizer) noexcept;
  std::uint64_t optimizers() const noexcept { return places_.size(); }
  // Of this optimizer, in this epoch.
  std::uint64_t steps(const void* optimizer) const noexcept;
  // Of every optimizer that has taken any.
  std::vector<std::pair<const void*, std::uint64_t>> counts() const;

 private:
  // Inside one last batch there may be a loop of any length.
  static constexpr std::uint32_t kMostPerBatch = 4;
  // Measuring takes at most this part of the time, all optimizers together. The first step of an
  // epoch is always measured; of optimizers that come and go in it, the first steps of this many
  // are.
  static constexpr std::uint64_t kPart = 1000;
  static constexpr std::uint64_t kMostNew = 64;

  struct Place {
    const void* optimizer = nullptr;  // only compared
    std::uint64_t serial = 0;         // of the optimizer: addresses are used again
    std::uint64_t deaths = 0;         // when it was last known to be that one
    std::uint64_t steps = 0;          // in this epoch
    std::uint64_t look = 1;           // the step at which there is something to decide
    std::uint64_t expected = 0;       // in the epoch before; 0: not known
    std::uint64_t sample = 1;         // the step at which the clock is asked
    std::uint64_t sampled = 0;        // the step that was measured last in this epoch; 0: none
    std::uint64_t sampled_ns = 0;     // when that was
    std::uint64_t cost_ns = 0;        // what it took
    std::uint32_t in_final = 0;       // steps in the last batch of this epoch
    bool likely_last = false;
    bool is_new = true;  // in this epoch
  };
  static bool is_it(const Place* place, const void* optimizer) noexcept {
    return place != nullptr && place->optimizer == optimizer && place->deaths == g_deaths;
  }
  Place& find(const void* optimizer) noexcept;
  void identify(Place& place, const void* optimizer) noexcept;
  bool look_at(Place& place, bool final) noexcept;
  bool wants_sample(Place& place) noexcept;

  static std::uint64_t g_deaths;

  Place *latest_ = nullptr, *earlier_ = nullptr;  // two optimizers often take turns
  std::unordered_map<const void*, Place> places_;
  std::uint64_t new_measured_ = 0;              // of the optimizers that are new in this epoch
  std::uint64_t any_ns_ = 0, any_cost_ns_ = 0;  // when one was measured last, and what it took
};

}  // namespace sonde::hook
