#include "engine/base/swallowed.h"

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace sonde::base {

namespace {

// Never destroyed: threads may fail while the process runs its static destructors.
struct Registry {
  std::mutex mutex;
  SwallowedErrors errors;
};
std::atomic<Registry*>& registry_place() {
  static std::atomic<Registry*> place{new Registry};
  return place;
}
Registry& registry() { return *registry_place().load(); }

}  // namespace

void note_swallowed(std::string_view place) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  ++all.errors.count;
  try {
    auto& by_place = all.errors.by_place;
    std::string name(place);
    if (by_place.size() >= kMaxSwallowingPlaces && !by_place.contains(name)) name = "other";
    ++by_place[std::move(name)];
  } catch (...) {
    // No memory for the name: the total still has it.
  }
}

SwallowedErrors swallowed_errors() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.errors;
}

void reset_swallowed() noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.errors.count = 0;
  all.errors.by_place.clear();
}

void reset_swallowed_after_fork() noexcept { registry_place().store(new Registry); }

}  // namespace sonde::base
