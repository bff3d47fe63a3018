// The session as Python sees it, and what live span objects need to know about past ones.
#pragma once

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "python/native/python.h"

namespace sonde::native {

// Which session a span was opened in: its id and its times are that session's, also after its end,
// and in a child that was forked meanwhile.
std::uint32_t current_era() noexcept;
base::Id era_key(std::uint32_t era) noexcept;
base::ClockAnchor era_anchor(std::uint32_t era) noexcept;
std::int32_t era_pid(std::uint32_t era) noexcept;
std::int32_t era_rank(std::uint32_t era) noexcept;

// New list of the ids of a span's marks. Flushes.
PyObject* mark_ids_of(const base::Id& span);

}  // namespace sonde::native
