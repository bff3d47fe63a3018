// What comes before and after every event that is not plain.
#pragma once

#include "engine/base/placement.h"
#include "engine/hook/moment.h"
#include "engine/hook/seen.h"

namespace sonde::hook {

// An event begins: looks at what the program has done since the last one.
SONDE_APART void begin_event(Seen& seen, Here here) noexcept;
// An event ends. Plain ones end like this, too.
inline void end_event(Seen& seen, Here here) noexcept { seen.others.note(here); }

}  // namespace sonde::hook
