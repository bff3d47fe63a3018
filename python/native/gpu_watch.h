// The GPU is looked at only from the moment at which the program itself begins to use it.
#pragma once

namespace sonde::native {

// Starts the GPU's clock once the program has begun to use the GPU, never before. Hot.
void look_for_gpu() noexcept;

// torch was attached: steps on a GPU carry the allocator's peak from now on.
void begin_gpu_watch() noexcept;
// torch is about to be detached.
void end_gpu_watch() noexcept;

}  // namespace sonde::native
