// Watches for the moment at which the program begins to use a GPU. Before that, the GPU is not
// touched.
#pragma once

namespace sonde::native {

// Starts the GPU's clock once the program has begun to use the GPU, never before. Hot.
void look_for_gpu() noexcept;

// torch was attached: steps on a GPU carry the allocator's peak from now on.
void begin_gpu_watch() noexcept;
// torch is about to be detached.
void end_gpu_watch() noexcept;

}  // namespace sonde::native
