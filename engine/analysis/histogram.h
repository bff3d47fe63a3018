// Durations counted in buckets that grow with the value: sixteen to a doubling, so a quantile is
// right to about 3 % over the whole range of nanoseconds, in bounded memory and mergeable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace sonde::analysis {

class Histogram {
 public:
  void add(std::int64_t value) { add_to(bucket_of(value), 1); }
  void merge(const Histogram& other);
  std::uint64_t count() const noexcept;
  // Middle of the bucket that holds the quantile `q` of [0, 1]; 0 when empty.
  std::int64_t quantile(double q) const noexcept;

 private:
  static constexpr std::uint32_t kSubBits = 4;
  static constexpr std::uint32_t kBuckets = (63 - kSubBits + 1) << kSubBits;
  struct Few {
    std::uint32_t bucket;
    std::uint32_t count;
  };
  // Most histograms of a stream live for one training step and hold one value; only those that see
  // many get an array, and of that only the touched range is ever looked at.
  struct Many {
    std::array<std::uint32_t, kBuckets> counts{};
    std::uint32_t low = kBuckets, high = 0;
  };
  static std::uint32_t bucket_of(std::int64_t value) noexcept;
  static std::int64_t middle_of(std::uint32_t bucket) noexcept;
  void add_to(std::uint32_t bucket, std::uint32_t count);
  void add_to_many(std::uint32_t bucket, std::uint32_t count) noexcept;
  template <typename Visit>
  void each(Visit visit) const;

  static constexpr std::uint32_t kFew = 4;
  std::array<Few, kFew> few_{};  // ascending
  std::uint32_t few_used_ = 0;
  std::unique_ptr<Many> many_;
};

}  // namespace sonde::analysis
