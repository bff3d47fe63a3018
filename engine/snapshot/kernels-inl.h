// One instruction set's kernels. No ordinary include guard: foreach_target.h reads this several
// times, with HWY_NAMESPACE and the compiler's target changed.
#if defined(SONDE_SNAPSHOT_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_SNAPSHOT_KERNELS_INL
#undef SONDE_SNAPSHOT_KERNELS_INL
#else
#define SONDE_SNAPSHOT_KERNELS_INL
#endif

#include <hwy/highway.h>

#include "engine/snapshot/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace sonde::snapshot {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Counting by shifting needs shifts of 32 and more to give zero, and tables of 8 lanes or more.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define SONDE_INDEXED 1
#else
#define SONDE_INDEXED 0
#endif

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

// The values that do not fill a vector, filled up.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> padded(D d, const T* values, std::size_t count, T padding) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = i < count ? values[i] : padding;
  return hn::Load(d, lanes);
}

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

// -- the histogram --

// How many values reach each of the 15 edges between bins, five edges at a time so that edges and
// counters stay in registers; neighbouring counts differ by what lies between.
template <typename T>
HWY_INLINE void bin_by_comparing(const T* x, std::size_t count, const Edges<T>& edges,
                                 Counts& out) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const std::size_t lanes = hn::Lanes(d);
  std::uint64_t before = count;
  for (int group = 0; group < 15; group += 5) {
    const T* edge = edges.upper.data() + group;
    const auto e0 = hn::Set(d, edge[0]), e1 = hn::Set(d, edge[1]), e2 = hn::Set(d, edge[2]);
    const auto e3 = hn::Set(d, edge[3]), e4 = hn::Set(d, edge[4]);
    auto c0 = hn::Zero(unsigned_d), c1 = c0, c2 = c0, c3 = c0, c4 = c0;
    const auto one = [&](auto value, auto reached) HWY_ATTR {
      return hn::BitCast(unsigned_d, hn::VecFromMask(d, hn::Ge(value, reached)));
    };
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto value = hn::LoadU(d, x + i);
      c0 = hn::Sub(c0, one(value, e0));
      c1 = hn::Sub(c1, one(value, e1));
      c2 = hn::Sub(c2, one(value, e2));
      c3 = hn::Sub(c3, one(value, e3));
      c4 = hn::Sub(c4, one(value, e4));
    }
    std::uint64_t reached[5] = {
        hn::GetLane(hn::SumOfLanes(unsigned_d, c0)), hn::GetLane(hn::SumOfLanes(unsigned_d, c1)),
        hn::GetLane(hn::SumOfLanes(unsigned_d, c2)), hn::GetLane(hn::SumOfLanes(unsigned_d, c3)),
        hn::GetLane(hn::SumOfLanes(unsigned_d, c4))};
    for (int j = 0; j < 5; ++j) {
      for (std::size_t k = i; k < count; ++k) reached[j] += x[k] >= edge[j];
      out[static_cast<std::size_t>(group + j)] += before - reached[j];
      before = reached[j];
    }
  }
  out[15] += before;
}

#if SONDE_INDEXED

// Counts 16 bins in every lane, four bits each, spread over two vectors; then bytes; then words.
template <class D, class V = hn::Vec<D>>
class LaneCounters {
 public:
  HWY_INLINE explicit LaneCounters(D d) {
    for (auto& bytes : bytes_) bytes = hn::Zero(d);
    for (auto& words : words_) words = hn::Zero(d);
  }
  // What at most fifteen vectors have added.
  HWY_INLINE void take(D d, V low, V high) {
    const V nibbles = hn::Set(d, 0x0F0F0F0FU);
    bytes_[0] = hn::Add(bytes_[0], hn::And(low, nibbles));
    bytes_[1] = hn::Add(bytes_[1], hn::And(hn::ShiftRight<4>(low), nibbles));
    bytes_[2] = hn::Add(bytes_[2], hn::And(high, nibbles));
    bytes_[3] = hn::Add(bytes_[3], hn::And(hn::ShiftRight<4>(high), nibbles));
    if (++taken_ == 17) spill(d);
  }
  HWY_INLINE void give(D d, Counts& out) {
    spill(d);
    for (std::size_t bin = 0; bin < 16; ++bin)
      out[bin] += hn::GetLane(hn::SumOfLanes(d, words_[bin]));
  }

 private:
  HWY_INLINE void spill(D d) {
    const V low_byte = hn::Set(d, 0xFFU);
    for (std::size_t i = 0; i < 4; ++i) {
      V* words = words_ + (i / 2) * 8 + i % 2;
      words[0] = hn::Add(words[0], hn::And(bytes_[i], low_byte));
      words[2] = hn::Add(words[2], hn::And(hn::ShiftRight<8>(bytes_[i]), low_byte));
      words[4] = hn::Add(words[4], hn::And(hn::ShiftRight<16>(bytes_[i]), low_byte));
      words[6] = hn::Add(words[6], hn::ShiftRight<24>(bytes_[i]));
      bytes_[i] = hn::Zero(d);
    }
    taken_ = 0;
  }

  V bytes_[4];
  V words_[16];
  int taken_ = 0;
};

struct FloatBins {
  static constexpr hn::ScalableTag<float> d{};
  static constexpr hn::RebindToUnsigned<decltype(d)> unsigned_d{};
  static constexpr hn::RebindToSigned<decltype(d)> signed_d{};
  using V = hn::Vec<decltype(d)>;
  using U = hn::Vec<decltype(unsigned_d)>;

  V low, scale, margin, upper, upper_high;
  U one = hn::Set(unsigned_d, 1), four = hn::Set(unsigned_d, 4), half = hn::Set(unsigned_d, 32);

  HWY_INLINE explicit FloatBins(const Edges<float>& edges)
      : low(hn::Set(d, edges.low)),
        scale(hn::Set(d, edges.scale)),
        margin(hn::Set(d, 1e-5F)),
        upper(hn::LoadU(d, edges.upper.data())),
        upper_high(hn::LoadU(d, edges.upper.data() + 16 - hn::Lanes(d))) {}

  // The plain instruction: Highway's conversion spends more on values out of range.
  HWY_INLINE static hn::Vec<decltype(signed_d)> whole(V x) {
#if HWY_TARGET == HWY_AVX3
    return {_mm512_cvttps_epi32(x.raw)};
#else
    return {_mm256_cvttps_epi32(x.raw)};
#endif
  }

  // Where the bin after index begins, by lane.
  HWY_INLINE V end_of(hn::Vec<decltype(signed_d)> index) const {
#if HWY_TARGET == HWY_AVX3
    return hn::TableLookupLanes(upper, hn::IndicesFromVec(d, index));
#else
    const auto seven = hn::Set(signed_d, 7);
    const auto lane = hn::IndicesFromVec(d, hn::And(index, seven));
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(index, seven)),
                          hn::TableLookupLanes(upper_high, lane),
                          hn::TableLookupLanes(upper, lane));
#endif
  }

  // The estimate is at most 16 * 3 * 2^-24 from the truth before the margin is taken off, so it is
  // the bin or the one before. Converting cuts off towards zero, which also lifts -margin to 0.
  HWY_INLINE void count(V x, U& low_bins, U& high_bins) const {
    const V place = hn::MulSub(hn::Sub(x, low), scale, margin);
    const auto index = whole(place);
    const auto next = hn::RebindMask(unsigned_d, hn::Ge(x, end_of(index)));
    const U shift = hn::ShiftLeft<2>(hn::BitCast(unsigned_d, index));
    const U bits = hn::IfThenElse(next, hn::Add(shift, four), shift);
    // A count of bits outside [0, 31] shifts the one out: exactly one of the two grows.
    low_bins = hn::Add(low_bins, hn::Shl(one, bits));
    high_bins = hn::Add(high_bins, hn::Shl(one, hn::Sub(bits, half)));
  }
};

HWY_INLINE void bin_by_index(const float* x, std::size_t count, const Edges<float>& edges,
                             Counts& out) {
  constexpr std::size_t kRun = 15;
  const FloatBins bins(edges);
  const auto d = FloatBins::d;
  const auto unsigned_d = FloatBins::unsigned_d;
  const std::size_t lanes = hn::Lanes(d);
  LaneCounters<decltype(FloatBins::unsigned_d)> counters(unsigned_d);
  std::size_t i = 0;
  for (; i + kRun * lanes <= count; i += kRun * lanes) {
    auto low = hn::Zero(unsigned_d), high = low;
    for (std::size_t j = 0; j < kRun; ++j) bins.count(hn::LoadU(d, x + i + j * lanes), low, high);
    counters.take(unsigned_d, low, high);
  }
  auto low = hn::Zero(unsigned_d), high = low;
  for (; i + lanes <= count; i += lanes) bins.count(hn::LoadU(d, x + i), low, high);
  if (i < count) {
    bins.count(padded(d, x + i, count - i, edges.low), low, high);
    out[0] -= lanes - (count - i);
  }
  counters.take(unsigned_d, low, high);
  counters.give(unsigned_d, out);
}

#endif  // SONDE_INDEXED

void bin_floats(const float* x, std::size_t count, const Edges<float>& edges, Counts& out) {
#if SONDE_INDEXED
  if (edges.scale != 0) return bin_by_index(x, count, edges, out);
#endif
  bin_by_comparing(x, count, edges, out);
}

void bin_doubles(const double* x, std::size_t count, const Edges<double>& edges, Counts& out) {
  bin_by_comparing(x, count, edges, out);
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

constexpr Kernels kKernels{HWY_STR(HWY_NAMESPACE), &sum_floats,      &sum_doubles,
                           &deviate_floats,        &deviate_doubles, &bin_floats,
                           &bin_doubles,           &widen_halves,    &widen_bfloats};

#undef SONDE_INDEXED

}  // namespace HWY_NAMESPACE
}  // namespace sonde::snapshot
HWY_AFTER_NAMESPACE();

#endif  // include guard of one instruction set
