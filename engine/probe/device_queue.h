// Device time for frameworks that hand work to a device and go on (JAX): there are no events to be
// had, but somebody waits for each piece of work off the training thread and says when it was done.
//
// A mark is what a CUDA event is elsewhere: a point of the program, passed when everything that was
// handed over before it is done. Devices work in order, so one piece that is done stands for all
// before it. Any thread; takes a lock, and is called a few times per training step.
#pragma once

#include <cstdint>

#include "engine/probe/gpu_clock.h"

namespace sonde::probe {

// Somebody watches the queue from here on; calls nest. Marks are made only while somebody does.
void queue_watch() noexcept;
void queue_unwatch() noexcept;
bool queue_watched() noexcept;

// A piece of work is about to be handed over, or just was. Its number, never 0.
std::uint64_t queue_submit() noexcept;
// It is done, at this time of the monotonic clock.
void queue_done(std::uint64_t piece, std::uint64_t now_ns) noexcept;
// Nobody will ever say when this piece, or one before it, was done: marks that wait are unknown.
void queue_abandon(std::uint64_t piece) noexcept;

// 0: nobody watches, or too many are under way. Numbers of marks and of CUDA events differ.
std::uint32_t queue_mark() noexcept;
void queue_release(std::uint32_t mark) noexcept;
inline bool is_queue_mark(std::uint32_t number) noexcept { return (number >> 31) != 0; }
// As gpu_elapsed.
GpuTime queue_elapsed(std::uint32_t start, std::uint32_t end, std::int64_t& ns) noexcept;

}  // namespace sonde::probe
