#include "engine/record/ends.h"

#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>

namespace sonde::record {

namespace {

struct Ends {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::uint64_t> by_sequence;
};

Ends* g_ends = new Ends;  // never destroyed: threads end after everything else

Ends& ends() noexcept { return *g_ends; }

}  // namespace

void note_end(std::uint64_t sequence, std::uint64_t end_ns) noexcept {
  const std::lock_guard lock(ends().mutex);
  try {
    ends().by_sequence[sequence] = end_ns;
  } catch (const std::bad_alloc&) {
    // No memory: the holder of the handle will take the time at which it asks for the end.
  }
}

std::uint64_t noted_end(std::uint64_t sequence) noexcept {
  const std::lock_guard lock(ends().mutex);
  const auto found = ends().by_sequence.find(sequence);
  return found == ends().by_sequence.end() ? 0 : found->second;
}

std::uint64_t take_end(std::uint64_t sequence) noexcept {
  const std::lock_guard lock(ends().mutex);
  const auto found = ends().by_sequence.find(sequence);
  if (found == ends().by_sequence.end()) return 0;
  const std::uint64_t end_ns = found->second;
  ends().by_sequence.erase(found);
  return end_ns;
}

namespace detail {

void forget_ends() noexcept { g_ends = new Ends; }  // the old one may be locked: leave it

}  // namespace detail

}  // namespace sonde::record
