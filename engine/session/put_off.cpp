#include "engine/session/put_off.h"

#include <functional>
#include <utility>

namespace sonde::session {

namespace {

thread_local std::function<void()> t_kept;

}  // namespace

bool put_off(std::function<void()> end) {
  if (!t_drains) return false;
  if (!t_kept) t_kept = std::move(end);
  return true;
}

std::function<void()> take_put_off() noexcept { return std::exchange(t_kept, nullptr); }

}  // namespace sonde::session
