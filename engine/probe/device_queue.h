// Device time for frameworks that hand work to a device and go on (JAX). They offer no events;
// instead a watcher, on another thread than the training's, waits for each piece of work and tells
// this queue when it was done.
//
// A mark is what a CUDA event is elsewhere: a point of the program, passed when everything that was
// handed over before it is done. Devices work in order, so one piece that is done stands for all
// before it. Any thread; takes a lock, and is called a few times per training step.
#pragma once

#include <cstdint>

#include "engine/probe/gpu_clock.h"

namespace sonde::probe {

// A watcher begins or ends its work; calls nest. Marks are made only while there is a watcher.
void queue_watch() noexcept;
void queue_unwatch() noexcept;
bool queue_watched() noexcept;

// A piece of work is about to be handed over, or just was. Its number, never 0.
std::uint64_t queue_submit() noexcept;
// The piece is done, at this time of the monotonic clock.
void queue_done(std::uint64_t piece, std::uint64_t now_ns) noexcept;
// It will never be known when this piece, or one before it, was done: the marks that wait for them
// get no time.
void queue_abandon(std::uint64_t piece) noexcept;

// 0: there is no watcher, or too many are under way. Numbers of marks and of CUDA events differ.
std::uint32_t queue_mark() noexcept;
void queue_release(std::uint32_t mark) noexcept;
inline bool is_queue_mark(std::uint32_t number) noexcept { return (number >> 31) != 0; }
// The time between two marks; see gpu_elapsed (gpu_clock.h).
GpuTime queue_elapsed(std::uint32_t start, std::uint32_t end, std::int64_t& ns) noexcept;

}  // namespace sonde::probe
