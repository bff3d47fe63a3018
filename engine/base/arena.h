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
    older_bytes_ = std::exchange(other.older_bytes_, 0);
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

  // The memory that it takes up, used or not.
  std::size_t bytes() const noexcept { return older_bytes_ + capacity_; }

  // Keeps the newest block, so a reused arena stops allocating.
  void clear() noexcept {
    if (blocks_.size() > 1) {
      blocks_.front() = std::move(blocks_.back());
      blocks_.resize(1);
    }
    older_bytes_ = 0;
    used_ = 0;
  }

 private:
  void grow(std::size_t bytes) {
    const std::size_t wanted =
        capacity_ < kLargest ? (capacity_ ? capacity_ * 2 : kFirst) : kLargest;
    const std::size_t size = bytes > wanted ? bytes : wanted;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    older_bytes_ += capacity_;
    capacity_ = size;
    used_ = 0;
  }

  static constexpr std::size_t kFirst = 4096;
  static constexpr std::size_t kLargest = 1u << 20;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t older_bytes_ = 0;  // of all blocks but the newest
};

}  // namespace sonde::base
