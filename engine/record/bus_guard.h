// A store into a mapped file raises SIGBUS when the disk turns out to be full or the file was
// truncated. That must cost crash survival, not the training run: the page is replaced by memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sonde::record {

// Covers [base, base + bytes), which maps `file` from its beginning. Other faults go to the handler
// that was there before.
void install_bus_guard(std::byte* base, std::size_t bytes, int file) noexcept;
void remove_bus_guard() noexcept;

// Pages replaced since the process began, and those of them whose contents were gone.
std::uint64_t bus_error_count() noexcept;
std::uint64_t lost_page_count() noexcept;

}  // namespace sonde::record
