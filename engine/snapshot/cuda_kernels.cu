// Statistics of many tensors on the GPU, in two passes over their memory:
//
//   measure_moments    per tile: sums, smallest, largest, how many NaN, infinities, zeros
//   combine_moments    per tensor: the above, and from it the edges of the histogram
//   measure_histogram  the histogram of each tensor
//
// Compiled at run time (NVRTC), so no header of CUDA's is included. Tiles have a fixed size and are
// combined in a fixed order, so that the same memory always gives the same numbers.
#include "engine/snapshot/cuda_elements.cuh"

constexpr int kUnroll = 4;  // loads under way

__device__ __forceinline__ bool finite(double x) {
  return (__double_as_longlong(x) & 0x7FF0000000000000ll) != 0x7FF0000000000000ll;
}

__device__ __forceinline__ double infinity() { return __longlong_as_double(0x7FF0000000000000ll); }

// The sums of one thread, over finite values only.
struct Sums {
  double shift, sum, squares, shrunk_sum, shrunk_squares, grown_squares, min, max;
  u32 nan, inf, minus_inf, zero, finite;
};

__device__ __forceinline__ void clear(Sums& s, double shift) {
  s.shift = shift;
  s.sum = s.squares = s.shrunk_sum = s.shrunk_squares = s.grown_squares = 0;
  s.min = infinity();
  s.max = -infinity();
  s.nan = s.inf = s.minus_inf = s.zero = s.finite = 0;
}

// Careful: `x` may be any value, NaN and infinity included.
__device__ __forceinline__ void add(Sums& s, double x) {
  if (x != x) {
    ++s.nan;
  } else if (!finite(x)) {
    ++s.inf;
    s.minus_inf += x < 0;
  } else {
    const double d = x - s.shift, small = x * kShrink - s.shift * kShrink, large = d * kGrow;
    s.sum += d;
    s.squares = fma(d, d, s.squares);
    s.shrunk_sum += small;
    s.shrunk_squares = fma(small, small, s.shrunk_squares);
    s.grown_squares = fma(large, large, s.grown_squares);
    s.min = x < s.min ? x : s.min;
    s.max = x > s.max ? x : s.max;
    s.zero += x == 0;
    ++s.finite;
  }
}

__device__ __forceinline__ void add(Sums& s, const Sums& other) {
  s.sum += other.sum;
  s.squares += other.squares;
  s.shrunk_sum += other.shrunk_sum;
  s.shrunk_squares += other.shrunk_squares;
  s.grown_squares += other.grown_squares;
  s.min = other.min < s.min ? other.min : s.min;
  s.max = other.max > s.max ? other.max : s.max;
  s.nan += other.nan;
  s.inf += other.inf;
  s.minus_inf += other.minus_inf;
  s.zero += other.zero;
  s.finite += other.finite;
}

__device__ __forceinline__ double from_lane(double x, int distance) {
  return __shfl_down_sync(0xFFFFFFFFu, x, distance);
}
__device__ __forceinline__ u32 from_lane(u32 x, int distance) {
  return __shfl_down_sync(0xFFFFFFFFu, x, distance);
}

// Adds up the sums of all threads of the block; the result is in its first thread.
__device__ void reduce(Sums& s) {
  for (int distance = 16; distance != 0; distance /= 2) {
    Sums other;
    other.sum = from_lane(s.sum, distance);
    other.squares = from_lane(s.squares, distance);
    other.shrunk_sum = from_lane(s.shrunk_sum, distance);
    other.shrunk_squares = from_lane(s.shrunk_squares, distance);
    other.grown_squares = from_lane(s.grown_squares, distance);
    other.min = from_lane(s.min, distance);
    other.max = from_lane(s.max, distance);
    other.nan = from_lane(s.nan, distance);
    other.inf = from_lane(s.inf, distance);
    other.minus_inf = from_lane(s.minus_inf, distance);
    other.zero = from_lane(s.zero, distance);
    other.finite = from_lane(s.finite, distance);
    add(s, other);
  }
  __shared__ Sums of_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / 32; ++i) add(s, of_warp[i]);
  }
}

// The sum of `x` over the block, in all of its threads.
__device__ double sum_of_block(double x) {
  for (int distance = 16; distance != 0; distance /= 2) x += from_lane(x, distance);
  __shared__ double of_warp[kThreads / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  x = of_warp[0];
  for (int i = 1; i < kThreads / 32; ++i) x += of_warp[i];
  return x;
}

// The tensor that a tile belongs to.
__device__ __forceinline__ int tensor_of(const Input* inputs, int tensors, u32 tile) {
  int low = 0, high = tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (inputs[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// A run of elements: single ones up to a boundary of 16 bytes, whole words, the rest.
struct Run {
  i64 begin, words_begin, end;
  u32 words;
};

template <Element kElement>
__device__ __forceinline__ Run split(const Input& in, i64 begin, i64 end) {
  constexpr int kSize = Of<kElement>::kSize, kPerWord = 16 / kSize;
  Run run;
  run.begin = begin;
  run.end = end;
  const u64 address = in.data + begin * kSize;
  i64 head = (i64)((16 - address % 16) % 16 / kSize);
  if (head > end - begin) head = end - begin;
  run.words_begin = begin + head;
  run.words = (u32)((end - run.words_begin) / kPerWord);
  return run;
}

__device__ __forceinline__ uint4 stream(const uint4* at) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(at));
  return v;
}

template <Element kElement>
__device__ void sums_of_floats(const Input& in, i64 begin, i64 end, Sums& s) {
  constexpr int kPerWord = 16 / Of<kElement>::kSize;
  const Run run = split<kElement>(in, begin, end);
  const uint4* words = (const uint4*)(in.data + run.words_begin * Of<kElement>::kSize);
  const double shift = s.shift;
  double sum = 0, squares = 0;
  float low = __uint_as_float(kInfBits), high = -low;
  u32 zero = 0;
  const auto take = [&](const uint4& word) {
    const u32 w[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) {
      const float x = Of<kElement>::get(w, i);
      low = fminf(low, x);
      high = fmaxf(high, x);
      zero += x == 0;
      const double d = x - shift;
      sum += d;
      squares = fma(d, d, squares);
    }
  };
  u32 i = threadIdx.x;
  for (; i + (kUnroll - 1) * kThreads < run.words; i += kUnroll * kThreads) {
    uint4 word[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) word[u] = stream(words + i + u * kThreads);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) take(word[u]);
  }
  for (; i < run.words; i += kThreads) take(stream(words + i));
  if (threadIdx.x < run.words) {
    if (finite(sum)) {
      s.sum = sum;
      s.squares = squares;
      s.min = low;
      s.max = high;
      s.zero = zero;
      s.finite = (run.words + kThreads - 1 - threadIdx.x) / kThreads * kPerWord;
    } else {
      // A NaN or an infinity among them: this thread's share once more.
      for (i = threadIdx.x; i < run.words; i += kThreads) {
        for (int k = 0; k < kPerWord; ++k) {
          add(s, (double)one_float<kElement>(in.data, run.words_begin + (i64)i * kPerWord + k));
        }
      }
    }
  }
  const i64 tail = run.words_begin + (i64)run.words * kPerWord;
  const i64 head = run.words_begin - run.begin;
  for (i64 k = threadIdx.x; k < head + (run.end - tail); k += kThreads) {
    add(s, (double)one_float<kElement>(in.data, k < head ? run.begin + k : tail + k - head));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    measure_moments(const Input* inputs, int tensors, Moments* moments) {
  const int tensor = tensor_of(inputs, tensors, blockIdx.x);
  const Input& in = inputs[tensor];
  const i64 begin = (i64)(blockIdx.x - in.first_tile) * kTile;
  const i64 end = begin + kTile < in.count ? begin + kTile : in.count;
  const double first = load(in, begin);
  Sums s;
  clear(s, finite(first) ? first : 0);
  const Element element = in.rank == 0 ? in.element : Element::kFloat64;
  switch (element) {
    case Element::kFloat32:
      sums_of_floats<Element::kFloat32>(in, begin, end, s);
      break;
    case Element::kFloat16:
      sums_of_floats<Element::kFloat16>(in, begin, end, s);
      break;
    case Element::kBFloat16:
      sums_of_floats<Element::kBFloat16>(in, begin, end, s);
      break;
    default:
      for (i64 i = begin + threadIdx.x; i < end; i += kThreads) add(s, load(in, i));
  }
  reduce(s);
  if (threadIdx.x != 0) return;
  Moments& out = moments[blockIdx.x];
  out.shift = s.shift;
  out.sum = s.sum;
  out.squares = s.squares;
  out.shrunk_sum = s.shrunk_sum;
  out.shrunk_squares = s.shrunk_squares;
  out.grown_squares = s.grown_squares;
  out.min = s.min;
  out.max = s.max;
  out.nan = s.nan;
  out.inf = s.inf;
  out.minus_inf = s.minus_inf;
  out.zero = s.zero;
  out.finite = s.finite;
}

// A multiple of 2^-22 added to it leaves that multiple in the low bits, rounded to the nearest;
// four times the bits are four times the multiple.
constexpr float kRounder = 2.0f;
constexpr double kRounded = 2.384185791015625e-07;  // 2^-22

__device__ void prepare(const Input& in, Output& out, Edges& edges) {
  const double width = out.max - out.min;
  const bool constant = out.min == out.max;
  for (int i = 0; i < kBins; ++i) {
    const double part = i / 16.0;
    // As the host writes them: no fused product.
    edges.edge[i] = finite(width)
                        ? __dadd_rn(out.min, __dmul_rn(width, part))
                        : __dadd_rn(__dmul_rn(out.min, 1 - part), __dmul_rn(out.max, part));
    edges.threshold[i] = __double2float_ru(edges.edge[i]);
  }
  edges.threshold[0] = -__uint_as_float(kInfBits);
  edges.threshold[kBins] = __uint_as_float(kInfBits);
  edges.low = (float)out.min;
  edges.scale = (float)(16 / width * kRounded);
  edges.constant = constant;
  edges.dirty = out.nan != 0 || out.inf != 0;
  edges.simple = in.rank == 0 && in.element >= Element::kFloat32 &&
                 in.element <= Element::kBFloat16 && width < 1e30 && width > 1e-30;
  out.counted = edges.simple && edges.dirty;
  for (int i = 0; i < kBins; ++i) out.counts[i] = 0;
  if (constant) out.counts[0] = out.finite;
}

// Each thread adds up some of the tiles, then the block adds up its threads: few additions lie
// between the sum of a tile and the total.
extern "C" __global__ void __launch_bounds__(kThreads)
    combine_moments(const Input* inputs, const Moments* moments, Output* outputs, Edges* edges) {
  const Input& in = inputs[blockIdx.x];
  const Moments* of_tile = moments + in.first_tile;
  const u32 tiles = (u32)((in.count + kTile - 1) / kTile);
  double sum = 0, scaled = 0, low = infinity(), high = -infinity();
  u64 nan = 0, inf = 0, minus_inf = 0, zero = 0, values = 0;
  for (u32 i = threadIdx.x; i < tiles; i += kThreads) {
    const Moments& m = of_tile[i];
    sum += m.sum + m.finite * m.shift;
    scaled += m.shrunk_sum + m.finite * (m.shift * kShrink);
    low = m.min < low ? m.min : low;
    high = m.max > high ? m.max : high;
    nan += m.nan;
    inf += m.inf;
    minus_inf += m.minus_inf;
    zero += m.zero;
    values += m.finite;
  }
  __shared__ u64 total[5];
  __shared__ double lows[kThreads], highs[kThreads];
  if (threadIdx.x < 5) total[threadIdx.x] = 0;
  lows[threadIdx.x] = low;
  highs[threadIdx.x] = high;
  __syncthreads();
  if (nan != 0) atomicAdd(&total[0], nan);
  if (inf != 0) atomicAdd(&total[1], inf);
  if (zero != 0) atomicAdd(&total[2], zero);
  if (values != 0) atomicAdd(&total[3], values);
  if (minus_inf != 0) atomicAdd(&total[4], minus_inf);
  for (int distance = kThreads / 2; distance != 0; distance /= 2) {
    if (threadIdx.x < distance) {
      lows[threadIdx.x] = fmin(lows[threadIdx.x], lows[threadIdx.x + distance]);
      highs[threadIdx.x] = fmax(highs[threadIdx.x], highs[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  sum = sum_of_block(sum);
  scaled = sum_of_block(scaled);
  values = total[3];
  const double small_mean = values == 0 ? 0 : scaled / values;
  double mean = values == 0 ? 0 : sum / values;
  if (!finite(mean)) mean = small_mean / kShrink;
  // The distances whose squares are doubles.
  const double width = values == 0 ? 0 : highs[0] - lows[0];
  double unit = 1;
  if (!(width < kGrow / 1e20)) {
    unit = kShrink;
  } else if (width != 0 && width < kShrink * 1e20) {
    unit = kGrow;
  }
  // Around the tile's own mean, then around the tensor's.
  double squares = 0;
  for (u32 i = threadIdx.x; i < tiles; i += kThreads) {
    const Moments& m = of_tile[i];
    if (m.finite == 0) continue;
    double own = m.sum / m.finite, apart = m.shift - mean + own, all = m.squares;
    if (unit == kShrink) {
      own = m.shrunk_sum / m.finite;
      apart = m.shift * kShrink - small_mean + own;
      all = m.shrunk_squares;
    } else if (unit == kGrow) {
      own *= kGrow;
      apart *= kGrow;
      all = m.grown_squares;
    }
    squares += fmax(0.0, all - own * own * m.finite) + m.finite * apart * apart;
  }
  squares = sum_of_block(squares);
  if (threadIdx.x != 0) return;
  Output& out = outputs[blockIdx.x];
  out.nan = total[0];
  out.inf = total[1];
  out.minus_inf = total[4];
  out.zero = total[2];
  out.finite = values;
  out.mean = mean;
  out.squares = squares;
  out.unit = unit;
  out.min = values == 0 ? 0 : lows[0];
  out.max = values == 0 ? 0 : highs[0];
  prepare(in, out, edges[blockIdx.x]);
}

// One thread's histogram: 16 counters of a byte, bins 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15.
struct Counters {
  u32 bytes[4];
};

template <Element kElement>
__device__ __forceinline__ void count_floats(const Input& in, i64 begin, i64 end,
                                             const Edges& edges, const float* thresholds,
                                             Counters& counters) {
  constexpr int kPerWord = 16 / Of<kElement>::kSize;
  const Run run = split<kElement>(in, begin, end);
  const uint4* words = (const uint4*)(in.data + run.words_begin * Of<kElement>::kSize);
  const float low = edges.low, scale = edges.scale;
  u32 first = 0, second = 0;  // eight counters of four bits each
  const float middle = thresholds[kBins / 2];
  const bool dirty = edges.dirty;
  const auto clean = [&](float x) { return fabsf(x) < __uint_as_float(kInfBits) ? x : low; };
  const auto count = [&](float x) {
    // The nearest edge by arithmetic, the side of it by comparison: exact. Predicates, because the
    // compiler's choice is a selection and an addition for each.
    u32 shift = __float_as_uint(fmaf(x - low, scale, kRounder)) << 2;
    const float threshold = *(const float*)((const char*)thresholds + shift);
    asm("{\n"
        "  .reg .pred below, lower;\n"
        "  .reg .u32 one;\n"
        "  setp.lt.f32 below, %3, %5;\n"
        "  @below add.u32 %2, %2, -4;\n"
        "  mov.u32 one, 1;\n"
        "  shf.l.wrap.b32 one, 0, one, %2;\n"  // modulo 32
        "  setp.lt.f32 lower, %3, %4;\n"
        "  @lower add.u32 %0, %0, one;\n"
        "  @!lower add.u32 %1, %1, one;\n"
        "}"
        : "+r"(first), "+r"(second), "+r"(shift)
        : "f"(x), "f"(middle), "f"(threshold));
  };
  const auto flush = [&] {
    counters.bytes[0] += first & 0x0F0F0F0Fu;
    counters.bytes[1] += first >> 4 & 0x0F0F0F0Fu;
    counters.bytes[2] += second & 0x0F0F0F0Fu;
    counters.bytes[3] += second >> 4 & 0x0F0F0F0Fu;
    first = second = 0;
  };
  const auto take = [&](const uint4& word) {
    const u32 w[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) {
      float x = Of<kElement>::get(w, i);
      if (dirty) x = clean(x);
      count(x);
      if (i % 8 == 7) flush();
    }
  };
  u32 i = threadIdx.x;
  for (; i + (kUnroll - 1) * kThreads < run.words; i += kUnroll * kThreads) {
    uint4 word[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) word[u] = stream(words + i + u * kThreads);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      take(word[u]);
      if (kPerWord == 4 && u % 2 == 1) flush();
    }
  }
  for (; i < run.words; i += kThreads) {
    take(stream(words + i));
    flush();
  }
  const i64 tail = run.words_begin + (i64)run.words * kPerWord;
  const i64 head = run.words_begin - run.begin;
  for (i64 k = threadIdx.x; k < head + (run.end - tail); k += kThreads) {
    count(clean(one_float<kElement>(in.data, k < head ? run.begin + k : tail + k - head)));
    flush();
  }
}

__device__ void count_any(const Input& in, i64 begin, i64 end, const double* edge, u32* bins) {
  for (i64 i = begin + threadIdx.x; i < end; i += kThreads) {
    const double x = load(in, i);
    if (!finite(x)) continue;
    int bin = 0;
    for (int step = 8; step != 0; step /= 2) {
      if (x >= edge[bin + step]) bin += step;
    }
    atomicAdd(&bins[bin], 1u);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    measure_histogram(const Input* inputs, int tensors, const Edges* all_edges, Output* outputs) {
  const int tensor = tensor_of(inputs, tensors, blockIdx.x);
  const Input& in = inputs[tensor];
  const Edges& edges = all_edges[tensor];
  if (edges.constant) return;
  const i64 begin = (i64)(blockIdx.x - in.first_tile) * kTile;
  const i64 end = begin + kTile < in.count ? begin + kTile : in.count;
  __shared__ float thresholds[kBins + 1];
  __shared__ double edge[kBins];
  __shared__ u32 bins[kBins];
  if (threadIdx.x <= kBins) thresholds[threadIdx.x] = edges.threshold[threadIdx.x];
  if (threadIdx.x < kBins) {
    edge[threadIdx.x] = edges.edge[threadIdx.x];
    bins[threadIdx.x] = 0;
  }
  __syncthreads();
  Counters counters = {{0, 0, 0, 0}};
  if (!edges.simple) {
    count_any(in, begin, end, edge, bins);
  } else if (in.element == Element::kFloat32) {
    count_floats<Element::kFloat32>(in, begin, end, edges, thresholds, counters);
  } else if (in.element == Element::kFloat16) {
    count_floats<Element::kFloat16>(in, begin, end, edges, thresholds, counters);
  } else {
    count_floats<Element::kBFloat16>(in, begin, end, edges, thresholds, counters);
  }
#pragma unroll
  for (int word = 0; word < 4; ++word) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Two counters of 16 bits: a warp has 32 * (kTile / kThreads) elements, and a few.
      u32 pair = counters.bytes[word] >> (8 * half) & 0x00FF00FFu;
      for (int distance = 16; distance != 0; distance /= 2) pair += from_lane(pair, distance);
      if (threadIdx.x % 32 == 0) {
        const int bin = word / 2 * 8 + word % 2 + half * 2;
        atomicAdd(&bins[bin], pair & 0xFFFF);
        atomicAdd(&bins[bin + 4], pair >> 16);
      }
    }
  }
  __syncthreads();
  if (threadIdx.x < kBins && bins[threadIdx.x] != 0) {
    atomicAdd(&outputs[tensor].counts[threadIdx.x], (u64)bins[threadIdx.x]);
  }
}
