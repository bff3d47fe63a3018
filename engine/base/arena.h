// Bump storage for the text that trace values point at. Grows in blocks, frees all at once.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde::base {

class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    blocks_ = std::exchange(other.blocks_, {});
    capacity_ = std::exchange(other.capacity_, 0);
    used_ = std::exchange(other.used_, 0);
    return *this;
  }

  char* allocate(std::size_t bytes) {
    if (bytes > capacity_ - used_ || blocks_.empty()) grow(bytes);
    char* start = blocks_.back().get() + used_;
    used_ += bytes;
    return start;
  }

  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* start = allocate(text.size());
    std::memcpy(start, text.data(), text.size());
    return {start, text.size()};
  }

  // Keeps the newest block, so a reused arena stops allocating.
  void clear() noexcept {
    if (blocks_.size() > 1) {
      blocks_.front() = std::move(blocks_.back());
      blocks_.resize(1);
    }
    used_ = 0;
  }

 private:
  void grow(std::size_t bytes) {
    const std::size_t wanted =
        capacity_ < kLargest ? (capacity_ ? capacity_ * 2 : kFirst) : kLargest;
    capacity_ = bytes > wanted ? bytes : wanted;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(capacity_));
    used_ = 0;
  }

  static constexpr std::size_t kFirst = 4096;
  static constexpr std::size_t kLargest = 1u << 20;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace sonde::base
