// Which levels of the tree are open on a stack, whoever has opened them.
#pragma once

#include <cstdint>

#include "engine/record/lane.h"

namespace sonde::hook {

// The innermost open scope of this name (a batch is a step), as its sequence; 0: none is open here.
std::uint64_t open_level(const record::Lane& stack, std::uint32_t name) noexcept;

// Somebody here announces his epochs, his steps and his validations himself.
bool epochs_announced(const record::Lane& stack) noexcept;

}  // namespace sonde::hook
