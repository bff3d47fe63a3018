// One instruction set's kernels. No ordinary include guard: foreach_target.h reads this several
// times, with HWY_NAMESPACE and the compiler's target changed.
#if defined(SONDE_SNAPSHOT_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_SNAPSHOT_KERNELS_INL
#undef SONDE_SNAPSHOT_KERNELS_INL
#else
#define SONDE_SNAPSHOT_KERNELS_INL
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

#include "engine/snapshot/bins-inl.h"
#include "engine/snapshot/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace sonde::snapshot {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// -- the first pass --

#if HWY_TARGET == HWY_SCALAR  // has no halves
template <class D>
struct FloatSums {
  double sum_ = 0, squares_ = 0;

  void add(hn::Vec<D> x) {
    const double wide = x.raw;
    sum_ += wide;
    squares_ += wide * wide;
  }
  void add(const FloatSums& other) {
    sum_ += other.sum_;
    squares_ += other.squares_;
  }
  double sum() const { return sum_; }
  double squares() const { return squares_; }
};
#else
// Adds up one vector of floats as two of doubles, so that a square is exact and never overflows.
template <class D, class V = hn::Vec<D>>
struct FloatSums {
  static constexpr hn::Repartition<double, D> kWide{};
  using Wide = hn::Vec<decltype(kWide)>;
  Wide low_sum, high_sum, low_squares, high_squares;

  HWY_INLINE FloatSums()
      : low_sum(hn::Zero(kWide)), high_sum(low_sum), low_squares(low_sum), high_squares(low_sum) {}
  HWY_INLINE void add(V x) {
    const hn::Half<D> half;
    const Wide low = hn::PromoteTo(kWide, hn::LowerHalf(half, x));
    const Wide high = hn::PromoteTo(kWide, hn::UpperHalf(half, x));
    low_sum = hn::Add(low_sum, low);
    high_sum = hn::Add(high_sum, high);
    low_squares = hn::MulAdd(low, low, low_squares);
    high_squares = hn::MulAdd(high, high, high_squares);
  }
  HWY_INLINE void add(const FloatSums& other) {
    low_sum = hn::Add(low_sum, other.low_sum);
    high_sum = hn::Add(high_sum, other.high_sum);
    low_squares = hn::Add(low_squares, other.low_squares);
    high_squares = hn::Add(high_squares, other.high_squares);
  }
  HWY_INLINE double sum() const {
    return hn::GetLane(hn::SumOfLanes(kWide, hn::Add(low_sum, high_sum)));
  }
  HWY_INLINE double squares() const {
    return hn::GetLane(hn::SumOfLanes(kWide, hn::Add(low_squares, high_squares)));
  }
};
#endif

// Smallest, largest and number of zeros, of floats or doubles.
template <class D, class V = hn::Vec<D>>
struct Extremes {
  V low, high;
  hn::Vec<hn::RebindToUnsigned<D>> zeros = hn::Zero(hn::RebindToUnsigned<D>());

  HWY_INLINE Extremes(D d, hn::TFromD<D> first) : low(hn::Set(d, first)), high(low) {}
  HWY_INLINE void reach(V x) {
    low = hn::Min(low, x);
    high = hn::Max(high, x);
  }
  HWY_INLINE void count_zeros(D d, V x) {
    const hn::RebindToUnsigned<D> unsigned_d;
    const auto zero = hn::RebindMask(unsigned_d, hn::Eq(x, hn::Zero(d)));
    const auto one = hn::Set(unsigned_d, 1);
    zeros = hn::IfThenElse(zero, hn::Add(zeros, one), zeros);
  }
  HWY_INLINE void give(D d, std::size_t padding, Sums& out) const {
    out.min = hn::GetLane(hn::MinOfLanes(d, low));
    out.max = hn::GetLane(hn::MaxOfLanes(d, high));
    const hn::RebindToUnsigned<D> unsigned_d;
    out.zeros = hn::GetLane(hn::SumOfLanes(unsigned_d, zeros)) - padding;
  }
};

void sum_floats(const float* x, std::size_t count, Sums& out) {
  if (count == 0) return void(out = Sums());
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  FloatSums<decltype(d)> first, second;
  Extremes<decltype(d)> extremes(d, x[0]), others(d, x[0]);
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i);
    const auto b = hn::LoadU(d, x + i + lanes);
    first.add(a);
    second.add(b);
    extremes.reach(a);
    others.reach(b);
    extremes.count_zeros(d, a);
    others.count_zeros(d, b);
  }
  std::size_t padding = 0;
  for (; i < count; i += lanes) {
    const std::size_t left = HWY_MIN(lanes, count - i);
    const auto zeros = padded(d, x + i, left, 0.0F);
    first.add(zeros);
    extremes.count_zeros(d, zeros);
    extremes.reach(padded(d, x + i, left, x[0]));
    padding += lanes - left;
  }
  first.add(second);
  extremes.reach(others.low);
  extremes.reach(others.high);
  extremes.zeros = hn::Add(extremes.zeros, others.zeros);
  out.sum = first.sum();
  out.squares = first.squares();
  extremes.give(d, padding, out);
}

void sum_doubles(const double* x, std::size_t count, double scale, Sums& out) {
  if (count == 0) return void(out = Sums());
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  auto sum = hn::Zero(d), other_sum = sum, squares = sum, other_squares = sum;
  Extremes<decltype(d)> extremes(d, x[0]);
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    extremes.reach(a);
    extremes.reach(b);
    extremes.count_zeros(d, a);
    extremes.count_zeros(d, b);
    const auto scaled_a = hn::Mul(a, factor), scaled_b = hn::Mul(b, factor);
    sum = hn::Add(sum, scaled_a);
    other_sum = hn::Add(other_sum, scaled_b);
    squares = hn::MulAdd(scaled_a, scaled_a, squares);
    other_squares = hn::MulAdd(scaled_b, scaled_b, other_squares);
  }
  std::size_t padding = 0;
  for (; i < count; i += lanes) {
    const std::size_t left = HWY_MIN(lanes, count - i);
    const auto zeros = padded(d, x + i, left, 0.0);
    extremes.count_zeros(d, zeros);
    extremes.reach(padded(d, x + i, left, x[0]));
    const auto scaled = hn::Mul(zeros, factor);
    sum = hn::Add(sum, scaled);
    squares = hn::MulAdd(scaled, scaled, squares);
    padding += lanes - left;
  }
  out.sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other_sum)));
  out.squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares, other_squares)));
  extremes.give(d, padding, out);
}

// -- deviations, for values that lie close together far from zero --

void deviate_doubles(const double* x, std::size_t count, double scale, double mean,
                     Deviations& out) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale), middle = hn::Set(d, mean);
  auto sum = hn::Zero(d), squares = sum;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto away = hn::Sub(hn::Mul(hn::LoadU(d, x + i), factor), middle);
    sum = hn::Add(sum, away);
    squares = hn::MulAdd(away, away, squares);
  }
  out.sum = hn::GetLane(hn::SumOfLanes(d, sum));
  out.squares = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < count; ++i) {
    const double away = x[i] * scale - mean;
    out.sum += away;
    out.squares += away * away;
  }
}

void deviate_floats(const float* x, std::size_t count, double mean, Deviations& out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  const auto middle = hn::Set(d, mean);
  auto sum = hn::Zero(d), squares = sum;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto away = hn::Sub(hn::PromoteTo(d, hn::LoadU(narrow, x + i)), middle);
    sum = hn::Add(sum, away);
    squares = hn::MulAdd(away, away, squares);
  }
  out.sum = hn::GetLane(hn::SumOfLanes(d, sum));
  out.squares = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < count; ++i) {
    const double away = static_cast<double>(x[i]) - mean;
    out.sum += away;
    out.squares += away * away;
  }
}

// -- values that are not finite --

template <typename T>
HWY_INLINE std::size_t keep_finite(T* x, std::size_t count, NonFinite& others) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr T kLargest = std::numeric_limits<T>::max();
  const auto lowest = hn::Set(d, -kLargest);
  std::size_t kept = 0, i = 0, nans = 0, below = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    nans += hn::CountTrue(d, hn::IsNaN(value));
    below += hn::CountTrue(d, hn::Lt(value, lowest));
    // Writes a whole vector, at most up to the end of the one just read. CompressStore would write
    // only what is kept, by an instruction that takes a hundred cycles on some processors.
    const auto finite = hn::IsFinite(value);
    hn::StoreU(hn::Compress(value, finite), d, x + kept);
    kept += hn::CountTrue(d, finite);
  }
  for (; i < count; ++i) {
    const T value = x[i];
    nans += value != value;
    below += value < -kLargest;
    x[kept] = value;
    kept += value - value == 0;
  }
  others.nans += nans;
  others.infinities += count - kept - nans;
  others.minus_infinities += below;
  return kept;
}

std::size_t keep_finite_floats(float* x, std::size_t count, NonFinite& others) {
  return keep_finite(x, count, others);
}

std::size_t keep_finite_doubles(double* x, std::size_t count, NonFinite& others) {
  return keep_finite(x, count, others);
}

// -- types --

void widen_bfloats(const std::uint16_t* x, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const hn::Rebind<std::uint16_t, decltype(d)> narrow;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto bits = hn::PromoteTo(unsigned_d, hn::LoadU(narrow, x + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, out + i);
  }
  for (; i < count; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x[i]) << 16;
    __builtin_memcpy(out + i, &bits, sizeof bits);
  }
}

// Exponent and fraction moved to their place are the value times 2^-112, also where it is
// subnormal; infinity and NaN have an exponent of their own.
void widen_halves(const std::uint16_t* x, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const hn::Rebind<std::uint16_t, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, 0x1p112F);
  const auto not_finite = hn::Set(unsigned_d, 0x7F800000U);
  const auto largest = hn::Set(unsigned_d, 0x7BFFU);
  const auto widen = [&](auto half) HWY_ATTR {
    const auto bits = hn::PromoteTo(unsigned_d, half);
    const auto size = hn::And(bits, hn::Set(unsigned_d, 0x7FFFU));
    const auto sign = hn::ShiftLeft<16>(hn::Sub(bits, size));
    const auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(size)), factor);
    const auto special = hn::VecFromMask(unsigned_d, hn::Gt(size, largest));
    return hn::BitCast(
        d, hn::Or(hn::Or(hn::BitCast(unsigned_d, value), sign), hn::And(special, not_finite)));
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(widen(hn::LoadU(narrow, x + i)), d, out + i);
  if (i == count) return;
  HWY_ALIGN std::uint16_t last[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  for (std::size_t j = i; j < count; ++j) last[j - i] = x[j];
  hn::Store(widen(hn::Load(narrow, last)), d, wide);
  for (std::size_t j = i; j < count; ++j) out[j] = wide[j - i];
}

constexpr Kernels kKernels{HWY_STR(HWY_NAMESPACE), &sum_floats,         &sum_doubles,
                           &deviate_floats,        &deviate_doubles,    &bin_floats,
                           &bin_doubles,           &keep_finite_floats, &keep_finite_doubles,
                           &widen_halves,          &widen_bfloats};

}  // namespace HWY_NAMESPACE
}  // namespace sonde::snapshot
HWY_AFTER_NAMESPACE();

#endif  // include guard of one instruction set
