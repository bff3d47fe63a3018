#include "engine/base/put_off.h"

#include <functional>
#include <utility>
#include <vector>

#include "engine/base/swallowed.h"

namespace sonde::base {

namespace {

thread_local std::vector<std::function<void()>> t_kept;

}  // namespace

bool put_off(std::function<void()> end) {
  if (!t_calls_host) return false;
  t_kept.push_back(std::move(end));
  return true;
}

std::vector<std::function<void()>> take_put_off() noexcept { return std::exchange(t_kept, {}); }

bool has_put_off() noexcept { return !t_kept.empty(); }

void run_put_off() noexcept {
  const CallsHost none(false);
  for (const std::function<void()>& end : take_put_off()) {
    try {
      end();
    } catch (...) {
      note_swallowed("put-off");
    }
  }
}

}  // namespace sonde::base
