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
  // To be asked once for every step, before it is taken. `final`: the step is on the last batch of
  // its epoch.
  bool is_due(const void* optimizer, bool final) noexcept {
    Place& place = is_it(latest_, optimizer) ? *latest_ : find(optimizer);
    if (++place.steps < place.look && !final) [[likely]]
      return false;
    return look_at(place, final);
  }
  // Was this optimizer's newest step due because it is likely to be the epoch's last?
  bool is_likely_last(const void* optimizer) const noexcept;
  // The gradients of this optimizer's newest step were measured between these two times. As long as
  // this is not called, the next steps that are due are 2, 4, 8, ...
  void measured(const void* optimizer, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
  // Discards what was measured in this epoch: the next step of every optimizer is due.
  void measure_again() noexcept;
  void end_epoch() noexcept;
  // A function that is called where an optimizer is met for the first time. That is in the middle
  // of an event, so the function may only take note.
  using Met = void (*)(const void* optimizer) noexcept;
  static void on_met(Met callback) noexcept;
  // This optimizer was freed: what comes at the same address is another one.
  static void gone(const void* optimizer) noexcept;
  // How many steps this optimizer has taken in this epoch.
  std::uint64_t steps(const void* optimizer) const noexcept;
  // The same for every optimizer that has taken any.
  std::vector<std::pair<const void*, std::uint64_t>> counts() const;

 private:
  // At most this many steps on the last batch are measured: a loop of any length may run on it.
  static constexpr std::uint32_t kMostMeasuredOnLast = 4;
  // Measuring takes at most one part in this many of the time, for all optimizers together.
  static constexpr std::uint64_t kPart = 1000;
  // The first step of an epoch is always measured. Of optimizers that come and go within the epoch,
  // this many have their first step measured.
  static constexpr std::uint64_t kMostNew = 64;

  struct Place {
    const void* optimizer = nullptr;  // only compared
    std::uint64_t serial = 0;         // number of the optimizer: addresses are used again
    std::uint64_t deaths = 0;         // g_deaths when the address was last known to be its own
    std::uint64_t steps = 0;          // taken in this epoch
    std::uint64_t look = 1;           // the step at which there is something to decide
    std::uint64_t expected = 0;       // steps in the epoch before; 0: not known
    std::uint64_t sample = 1;         // the step at which the clock is asked
    std::uint64_t sampled = 0;        // the step that was measured last in this epoch; 0: none
    std::uint64_t sampled_ns = 0;     // when that step had been measured
    std::uint64_t cost_ns = 0;        // how long that took
    std::uint32_t in_final = 0;       // steps on the last batch of this epoch
    bool likely_last = false;         // the newest step is likely to be the epoch's last
    bool is_new = true;               // the optimizer is new in this epoch
  };
  static bool is_it(const Place* place, const void* optimizer) noexcept {
    return place != nullptr && place->optimizer == optimizer && place->deaths == g_deaths;
  }
  Place& find(const void* optimizer) noexcept;
  void identify(Place& place, const void* optimizer) noexcept;
  bool look_at(Place& place, bool final) noexcept;
  bool wants_sample(Place& place) noexcept;

  static std::uint64_t g_deaths;  // how often an optimizer was freed

  Place *latest_ = nullptr, *earlier_ = nullptr;  // two optimizers often take turns
  std::unordered_map<const void*, Place> places_;
  std::uint64_t new_measured_ = 0;  // measured optimizers that are new in this epoch
  // When any optimizer was measured last, and how long that took.
  std::uint64_t any_ns_ = 0, any_cost_ns_ = 0;
};

}  // namespace sonde::hook
