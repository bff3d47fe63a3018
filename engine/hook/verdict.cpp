#include "engine/hook/verdict.h"

#include "engine/base/swallowed.h"

namespace sonde::hook {

Verdict not_asked() noexcept {
  base::note_swallowed("hooks.judge");
  return {};
}

}  // namespace sonde::hook
