// The names that hooks give to what they see.
#pragma once

#include <cstdint>

namespace sonde::hook {

// Interned once; the table outlives everything.
struct Names {
  std::uint32_t epoch, step, batch, validation, peek, data_load, forward, backward, optimizer_step;
  std::uint32_t train_mode, eval_mode, skipped;  // attributes
};

extern Names g_names;
inline const Names& names() { return g_names; }
// To be called before names() is used. A second call changes nothing.
void intern_names() noexcept;

}  // namespace sonde::hook
