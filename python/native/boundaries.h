// Where epochs end and where their gradients are final, told to whoever takes snapshots there.
#pragma once

#include <cstdint>

#include "engine/record/lane.h"
#include "python/native/python.h"
#include "python/native/seen.h"

namespace sonde::native {

namespace detail {
inline constexpr std::uint32_t kNoName = 0xFFFFFFFF;
extern constinit bool g_snapshots_wanted;
extern constinit bool g_epoch_ends_due;
extern constinit std::uint32_t g_epoch_name;
extern constinit std::uint32_t g_snapshot_round;
void tell_epoch_ends() noexcept;
}  // namespace detail

// Does anybody take snapshots?
inline bool snapshots_wanted() noexcept { return detail::g_snapshots_wanted; }
// Another number whenever that has changed.
inline std::uint32_t snapshot_round() noexcept { return detail::g_snapshot_round; }
// What an epoch's scope is called, while somebody wants to hear of its end.
inline std::uint32_t epoch_name() noexcept { return detail::g_epoch_name; }

// A scope called epoch was closed, from Python. Tells it at once. Index: kNoIndex if it has none.
void epoch_closed(std::uint64_t sequence, std::int64_t index) noexcept;
// What engine/hook has taken note of, once it is out of the middle of things.
inline void tell_epoch_ends() noexcept {
  if (detail::g_epoch_ends_due) [[unlikely]]
    detail::tell_epoch_ends();
}

// What this optimizer is about to use, or has used, are gradients to be measured.
void take_gradients(PyObject* optimizer) noexcept;
// The host goes on while a device measures: about how long that takes it.
void note_device_time(std::uint64_t ns) noexcept;
// A turn of ci.batches.
void turn_begins(record::ThreadState& thread, record::Lane& stack, std::int64_t index,
                 bool last) noexcept;

// The process is about to be ended by a signal: tells the end of the open epochs. Without the GIL;
// waits for it, but not for long.
void end_epochs_before_death() noexcept;

bool add_boundaries(PyObject* module);

}  // namespace sonde::native
