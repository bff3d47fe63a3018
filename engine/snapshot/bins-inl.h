// One instruction set's histogram; read as often as kernels-inl.h, which includes it.
#if defined(SONDE_SNAPSHOT_BINS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_SNAPSHOT_BINS_INL
#undef SONDE_SNAPSHOT_BINS_INL
#else
#define SONDE_SNAPSHOT_BINS_INL
#endif

#include <cstddef>
#include <cstdint>

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

// The last values, which do not fill a vector, and padding for the rest of it.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> padded(D d, const T* values, std::size_t count, T padding) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = i < count ? values[i] : padding;
  return hn::Load(d, lanes);
}

// How many values reach each of the 15 edges between bins, five edges at a time so that edges and
// counters stay in registers; neighbouring counts differ by what lies between.
template <typename T>
HWY_INLINE void bin_by_comparing(const T* x, std::size_t count, const Edges<T>& edges,
                                 Counts& out) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const std::size_t lanes = hn::Lanes(d);
  std::uint64_t before = count;
  for (std::size_t group = 0; group < 15; group += 5) {
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
    for (std::size_t j = 0; j < 5; ++j) {
      for (std::size_t k = i; k < count; ++k) reached[j] += x[k] >= edge[j];
      out[group + j] += before - reached[j];
      before = reached[j];
    }
  }
  out[15] += before;
}

#if SONDE_INDEXED

// Counts 16 bins in every lane, four bits each: one vector of 64-bit lanes or two of 32-bit lanes.
// They spill into bytes, and those into words.
template <class D, class V = hn::Vec<D>>
class LaneCounters {
 public:
  static constexpr std::size_t kVectors = 8 / sizeof(hn::TFromD<D>);
  static constexpr std::size_t kRun = 15;  // how often a lane may count between two calls of take

  HWY_INLINE explicit LaneCounters(D d) {
    for (auto& bytes : bytes_) bytes = hn::Zero(d);
    for (auto& words : words_) words = hn::Zero(d);
  }
  HWY_INLINE void take(D d, const V (&nibbles)[kVectors]) {
    const V even = hn::Set(d, static_cast<hn::TFromD<D>>(0x0F0F0F0F0F0F0F0FU));
    for (std::size_t i = 0; i < kVectors; ++i) {
      V* bytes = bytes_ + 2 * i;
      bytes[0] = hn::Add(bytes[0], hn::And(nibbles[i], even));
      bytes[1] = hn::Add(bytes[1], hn::And(hn::ShiftRight<4>(nibbles[i]), even));
    }
    if (++taken_ == 255 / kRun) spill(d);
  }
  HWY_INLINE void give(D d, Counts& out) {
    spill(d);
    for (std::size_t bin = 0; bin < 16; ++bin)
      out[bin] += hn::GetLane(hn::SumOfLanes(d, words_[bin]));
  }

 private:
  HWY_INLINE void spill(D d) {
    constexpr std::size_t kBytes = sizeof(hn::TFromD<D>);
    const V low_byte = hn::Set(d, 0xFFU);
    for (std::size_t i = 0; i < 2 * kVectors; ++i) {
      V* words = words_ + (i / 2) * 2 * kBytes + i % 2;
      for (std::size_t byte = 0; byte < kBytes; ++byte) {
        words[2 * byte] = hn::Add(words[2 * byte], hn::And(bytes_[i], low_byte));
        bytes_[i] = hn::ShiftRight<8>(bytes_[i]);
      }
    }
    taken_ = 0;
  }

  V bytes_[2 * kVectors];
  V words_[16];
  std::size_t taken_ = 0;
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
  HWY_INLINE void count(V x, U (&nibbles)[2]) const {
    const V place = hn::MulSub(hn::Sub(x, low), scale, margin);
    const auto index = whole(place);
    const auto next = hn::RebindMask(unsigned_d, hn::Ge(x, end_of(index)));
    const U shift = hn::ShiftLeft<2>(hn::BitCast(unsigned_d, index));
    const U bits = hn::IfThenElse(next, hn::Add(shift, four), shift);
    // A count of bits outside [0, 31] shifts the one out: exactly one of the two grows.
    nibbles[0] = hn::Add(nibbles[0], hn::Shl(one, bits));
    nibbles[1] = hn::Add(nibbles[1], hn::Shl(one, hn::Sub(bits, half)));
  }
};

// As above, in lanes of 64 bits, where the counters of all bins fit into one vector. The exact
// edges are themselves rounded; edges_of sees to it that this is less than the margin, too.
struct DoubleBins {
  static constexpr hn::ScalableTag<double> d{};
  static constexpr hn::RebindToUnsigned<decltype(d)> unsigned_d{};
  static constexpr hn::RebindToSigned<decltype(d)> signed_d{};
  using V = hn::Vec<decltype(d)>;
  using U = hn::Vec<decltype(unsigned_d)>;

  V low, scale, margin;
  const double* upper;
  U one = hn::Set(unsigned_d, 1), four = hn::Set(unsigned_d, 4);

  HWY_INLINE explicit DoubleBins(const Edges<double>& edges)
      : low(hn::Set(d, edges.low)),
        scale(hn::Set(d, edges.scale)),
        margin(hn::Set(d, 1e-5)),
        upper(edges.upper.data()) {}

  HWY_INLINE static hn::Vec<decltype(signed_d)> whole(V x) {
#if HWY_TARGET == HWY_AVX3
    return {_mm512_cvttpd_epi64(x.raw)};
#else
    return {_mm256_cvtepi32_epi64(_mm256_cvttpd_epi32(x.raw))};
#endif
  }

  HWY_INLINE V end_of(hn::Vec<decltype(signed_d)> index) const {
#if HWY_TARGET == HWY_AVX3
    return {
        _mm512_permutex2var_pd(hn::LoadU(d, upper).raw, index.raw, hn::LoadU(d, upper + 8).raw)};
#else
    return {_mm256_i64gather_pd(upper, index.raw, 8)};
#endif
  }

  HWY_INLINE void count(V x, U (&nibbles)[1]) const {
    const V place = hn::MulSub(hn::Sub(x, low), scale, margin);
    const auto index = whole(place);
    const auto next = hn::RebindMask(unsigned_d, hn::Ge(x, end_of(index)));
    const U shift = hn::ShiftLeft<2>(hn::BitCast(unsigned_d, index));
    nibbles[0] =
        hn::Add(nibbles[0], hn::Shl(one, hn::IfThenElse(next, hn::Add(shift, four), shift)));
  }
};

template <class Bins, typename T>
HWY_INLINE void bin_by_index(const T* x, std::size_t count, const Edges<T>& edges, Counts& out) {
  using Counters = LaneCounters<hn::RebindToUnsigned<hn::ScalableTag<T>>>;
  constexpr std::size_t kRun = Counters::kRun;
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> unsigned_d;
  const std::size_t lanes = hn::Lanes(d);
  const Bins bins(edges);
  Counters counters(unsigned_d);
  typename Bins::U nibbles[Counters::kVectors];
  std::size_t i = 0;
  for (; i + kRun * lanes <= count; i += kRun * lanes) {
    for (auto& some : nibbles) some = hn::Zero(unsigned_d);
    for (std::size_t j = 0; j < kRun; ++j) bins.count(hn::LoadU(d, x + i + j * lanes), nibbles);
    counters.take(unsigned_d, nibbles);
  }
  for (auto& some : nibbles) some = hn::Zero(unsigned_d);
  for (; i + lanes <= count; i += lanes) bins.count(hn::LoadU(d, x + i), nibbles);
  if (i < count) {
    bins.count(padded(d, x + i, count - i, edges.low), nibbles);
    out[0] -= lanes - (count - i);
  }
  counters.take(unsigned_d, nibbles);
  counters.give(unsigned_d, out);
}

#endif  // SONDE_INDEXED

void bin_floats(const float* x, std::size_t count, const Edges<float>& edges, Counts& out) {
#if SONDE_INDEXED
  if (edges.scale != 0) return bin_by_index<FloatBins>(x, count, edges, out);
#endif
  bin_by_comparing(x, count, edges, out);
}

void bin_doubles(const double* x, std::size_t count, const Edges<double>& edges, Counts& out) {
#if SONDE_INDEXED
  if (edges.scale != 0) return bin_by_index<DoubleBins>(x, count, edges, out);
#endif
  bin_by_comparing(x, count, edges, out);
}

#undef SONDE_INDEXED

}  // namespace HWY_NAMESPACE
}  // namespace sonde::snapshot
HWY_AFTER_NAMESPACE();

#endif  // include guard of one instruction set
