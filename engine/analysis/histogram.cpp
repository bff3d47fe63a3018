#include "engine/analysis/histogram.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

namespace sonde::analysis {

std::uint32_t Histogram::bucket_of(std::int64_t value) noexcept {
  const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
  if (v < (1u << kSubBits)) return static_cast<std::uint32_t>(v);
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(v)) - 1;
  const auto sub = static_cast<std::uint32_t>(v >> (exponent - kSubBits)) & ((1u << kSubBits) - 1);
  return ((exponent - kSubBits + 1) << kSubBits) + sub;
}

std::int64_t Histogram::middle_of(std::uint32_t bucket) noexcept {
  if (bucket < (1u << kSubBits)) return bucket;
  const std::uint32_t shift = (bucket >> kSubBits) - 1;
  const std::int64_t low =
      static_cast<std::int64_t>((1u << kSubBits) + (bucket & ((1u << kSubBits) - 1))) << shift;
  return low + ((std::int64_t{1} << shift) >> 1);
}

void Histogram::add_to(std::uint32_t bucket, std::uint32_t count) {
  if (many_ != nullptr) return add_to_many(bucket, count);
  std::uint32_t place = 0;
  while (place < few_used_ && few_[place].bucket < bucket) ++place;
  if (place < few_used_ && few_[place].bucket == bucket) {
    few_[place].count += count;
  } else if (few_used_ < kFew) {
    for (std::uint32_t i = few_used_++; i > place; --i) few_[i] = few_[i - 1];
    few_[place] = {bucket, count};
  } else {
    many_ = std::make_unique<Many>();
    for (const Few& few : few_) add_to_many(few.bucket, few.count);
    add_to_many(bucket, count);
  }
}

void Histogram::add_to_many(std::uint32_t bucket, std::uint32_t count) noexcept {
  many_->counts[bucket] += count;
  many_->low = std::min(many_->low, bucket);
  many_->high = std::max(many_->high, bucket);
}

// In ascending order.
template <typename Visit>
void Histogram::each(Visit visit) const {
  if (many_ == nullptr) {
    for (std::uint32_t i = 0; i < few_used_; ++i) visit(few_[i].bucket, few_[i].count);
    return;
  }
  for (std::uint32_t bucket = many_->low; bucket <= many_->high; ++bucket) {
    if (many_->counts[bucket] != 0) visit(bucket, many_->counts[bucket]);
  }
}

void Histogram::merge(const Histogram& other) {
  other.each([this](std::uint32_t bucket, std::uint32_t count) { add_to(bucket, count); });
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t sum = 0;
  each([&](std::uint32_t, std::uint32_t count) { sum += count; });
  return sum;
}

std::int64_t Histogram::quantile(double q) const noexcept {
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count()));
  std::uint64_t seen = 0;
  std::int64_t answer = 0;
  each([&](std::uint32_t bucket, std::uint32_t count) {
    if (seen <= rank) answer = middle_of(bucket);
    seen += count;
  });
  return answer;
}

}  // namespace sonde::analysis
