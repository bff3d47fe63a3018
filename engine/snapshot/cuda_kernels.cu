// Statistics of many tensors on the GPU, in two passes over their memory:
//
//   measure_range   per tile: sum, smallest, largest, how many NaN, infinities, zeros
//   combine_range   per tensor: the above, and from it the edges of the histogram
//   measure_spread  per tile: squared deviations from the mean, the histogram
//   combine_spread  per tensor: the squared deviations
//
// Compiled at run time (NVRTC), so no header of CUDA's is included. A tile is a fixed number of
// elements and tiles are combined in a fixed order: the same memory gives the same numbers, every
// time. What the numbers mean is said in engine/snapshot/statistics.h.
#include "engine/snapshot/cuda_elements.cuh"

constexpr int kUnroll = 4;  // loads under way

__device__ __forceinline__ bool finite(double x) {
  return (__double_as_longlong(x) & 0x7FF0000000000000ll) != 0x7FF0000000000000ll;
}

__device__ __forceinline__ double infinity() { return __longlong_as_double(0x7FF0000000000000ll); }

__device__ __forceinline__ void clear(Range& r) {
  r.sum = r.scaled_sum = 0;
  r.min = infinity();
  r.max = -infinity();
  r.nan = r.inf = r.zero = r.finite = 0;
}

__device__ __forceinline__ void add(Range& r, double x) {
  if (x != x) {
    ++r.nan;
  } else if (!finite(x)) {
    ++r.inf;
  } else {
    r.sum += x;
    r.scaled_sum += x * kShrink;
    r.min = x < r.min ? x : r.min;
    r.max = x > r.max ? x : r.max;
    r.zero += x == 0;
    ++r.finite;
  }
}

__device__ __forceinline__ void add(Range& r, const Range& other) {
  r.sum += other.sum;
  r.scaled_sum += other.scaled_sum;
  r.min = other.min < r.min ? other.min : r.min;
  r.max = other.max > r.max ? other.max : r.max;
  r.nan += other.nan;
  r.inf += other.inf;
  r.zero += other.zero;
  r.finite += other.finite;
}

__device__ __forceinline__ double from_lane(double x, int distance) {
  return __shfl_down_sync(0xFFFFFFFFu, x, distance);
}

// Of the block, in its first thread.
__device__ void reduce(Range& r) {
  for (int distance = 16; distance != 0; distance /= 2) {
    Range other;
    other.sum = from_lane(r.sum, distance);
    other.scaled_sum = from_lane(r.scaled_sum, distance);
    other.min = from_lane(r.min, distance);
    other.max = from_lane(r.max, distance);
    other.nan = __shfl_down_sync(0xFFFFFFFFu, r.nan, distance);
    other.inf = __shfl_down_sync(0xFFFFFFFFu, r.inf, distance);
    other.zero = __shfl_down_sync(0xFFFFFFFFu, r.zero, distance);
    other.finite = __shfl_down_sync(0xFFFFFFFFu, r.finite, distance);
    add(r, other);
  }
  __shared__ Range of_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = r;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / 32; ++i) add(r, of_warp[i]);
  }
}

__device__ double reduce(double x) {
  for (int distance = 16; distance != 0; distance /= 2) x += from_lane(x, distance);
  __shared__ double of_warp[kThreads / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / 32; ++i) x += of_warp[i];
  }
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

template <int kElement>
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

template <int kElement>
__device__ void range_of_floats(const Input& in, i64 begin, i64 end, Range& r) {
  constexpr int kPerWord = 16 / Of<kElement>::kSize;
  const Run run = split<kElement>(in, begin, end);
  const uint4* words = (const uint4*)(in.data + run.words_begin * Of<kElement>::kSize);
  double sum = 0;
  float low = __uint_as_float(kInfBits), high = -low;
  u32 zero = 0;
  const auto take = [&](const uint4& word) {
    const u32 w[4] = {word.x, word.y, word.z, word.w};
    float x[kPerWord];
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) x[i] = Of<kElement>::get(w, i);
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) {
      low = fminf(low, x[i]);
      high = fmaxf(high, x[i]);
      zero += x[i] == 0;
    }
    if (kElement == kFloat32) {
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) sum += x[i];
    } else {
      // Few enough that a float holds them well; the tree keeps the additions apart.
#pragma unroll
      for (int step = 1; step < kPerWord; step *= 2) {
#pragma unroll
        for (int i = 0; i + step < kPerWord; i += 2 * step) x[i] += x[i + step];
      }
      sum += x[0];
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
  u32 seen = (run.words + kThreads - 1 - threadIdx.x) / kThreads * kPerWord;
  if (threadIdx.x >= run.words) seen = 0;
  if (finite(sum)) {
    r.sum = sum;
    r.scaled_sum = sum * kShrink;
    if (seen != 0) {
      r.min = low;
      r.max = high;
    }
    r.zero = zero;
    r.finite = seen;
  } else {
    // A NaN or an infinity among them (or sums beyond a float): this thread's share once more.
    for (i = threadIdx.x; i < run.words; i += kThreads) {
      for (int k = 0; k < kPerWord; ++k) {
        add(r, (double)one_float<kElement>(in.data, run.words_begin + (i64)i * kPerWord + k));
      }
    }
  }
  const i64 tail = run.words_begin + (i64)run.words * kPerWord;
  const i64 head = run.words_begin - run.begin;
  for (i64 k = threadIdx.x; k < head + (run.end - tail); k += kThreads) {
    add(r, (double)one_float<kElement>(in.data, k < head ? run.begin + k : tail + k - head));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    measure_range(const Input* inputs, int tensors, Range* ranges) {
  const int tensor = tensor_of(inputs, tensors, blockIdx.x);
  const Input& in = inputs[tensor];
  const i64 begin = (i64)(blockIdx.x - in.first_tile) * kTile;
  const i64 end = begin + kTile < in.count ? begin + kTile : in.count;
  Range r;
  clear(r);
  const int element = in.rank == 0 ? in.element : kFloat64;
  switch (element) {
    case kFloat32:
      range_of_floats<kFloat32>(in, begin, end, r);
      break;
    case kFloat16:
      range_of_floats<kFloat16>(in, begin, end, r);
      break;
    case kBFloat16:
      range_of_floats<kBFloat16>(in, begin, end, r);
      break;
    default:
      for (i64 i = begin + threadIdx.x; i < end; i += kThreads) add(r, load(in, i));
  }
  reduce(r);
  if (threadIdx.x == 0) ranges[blockIdx.x] = r;
}

// A multiple of 2^-22 added to it leaves that multiple in the low bits, rounded to the nearest;
// four times the bits are four times the multiple.
constexpr float kRounder = 2.0f;
constexpr double kRounded = 2.384185791015625e-07;  // 2^-22

__device__ __forceinline__ float ceil_to_float(double x) { return __double2float_ru(x); }

__device__ void prepare(const Input& in, const Output& out, Edges& edges) {
  const double width = out.max - out.min;
  const bool constant = out.min == out.max;
  edges.constant = constant;
  for (int i = 0; i < kBins; ++i) {
    const double part = i / 16.0;
    // As the host writes them: no fused product.
    edges.edge[i] = finite(width)
                        ? __dadd_rn(out.min, __dmul_rn(width, part))
                        : __dadd_rn(__dmul_rn(out.min, 1 - part), __dmul_rn(out.max, part));
    edges.threshold[i] = ceil_to_float(edges.edge[i]);
  }
  edges.threshold[0] = -__uint_as_float(kInfBits);
  edges.threshold[kBins] = __uint_as_float(kInfBits);
  double mean = out.finite == 0 ? 0 : out.sum / out.finite;
  if (!finite(mean)) mean = out.scaled_sum / out.finite / kShrink;
  edges.mean = mean;
  edges.low = (float)out.min;
  edges.scale = (float)(16 / width * kRounded);
  const float reach = (float)width;
  // Squares of short floats are summed in a float, which must hold them.
  const bool room =
      in.element == kFloat32 ? reach < 1e30f && reach > 1e-30f : reach < 1e15f && reach > 1e-10f;
  edges.simple =
      in.rank == 0 && in.element >= kFloat32 && in.element <= kBFloat16 && !constant && room;
  edges.dirty = out.nan != 0 || out.inf != 0;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    combine_range(const Input* inputs, const Range* ranges, Output* outputs, Edges* edges) {
  const int tensor = blockIdx.x;
  const Input& in = inputs[tensor];
  const u32 first = in.first_tile;
  const u32 tiles = (u32)((in.count + kTile - 1) / kTile);
  double sum = 0, scaled = 0, low = infinity(), high = -infinity();
  u64 nan = 0, inf = 0, zero = 0, finite_count = 0;
  for (u32 i = threadIdx.x; i < tiles; i += kThreads) {
    const Range& r = ranges[first + i];
    sum += r.sum;
    scaled += r.scaled_sum;
    low = r.min < low ? r.min : low;
    high = r.max > high ? r.max : high;
    nan += r.nan;
    inf += r.inf;
    zero += r.zero;
    finite_count += r.finite;
  }
  __shared__ double sums[kThreads], scaleds[kThreads], lows[kThreads], highs[kThreads];
  __shared__ u64 total[4];
  if (threadIdx.x < 4) total[threadIdx.x] = 0;
  sums[threadIdx.x] = sum;
  scaleds[threadIdx.x] = scaled;
  lows[threadIdx.x] = low;
  highs[threadIdx.x] = high;
  __syncthreads();
  if (nan != 0) atomicAdd(&total[0], nan);
  if (inf != 0) atomicAdd(&total[1], inf);
  if (zero != 0) atomicAdd(&total[2], zero);
  if (finite_count != 0) atomicAdd(&total[3], finite_count);
  for (int distance = kThreads / 2; distance != 0; distance /= 2) {
    if (threadIdx.x < distance) {
      const int other = threadIdx.x + distance;
      sums[threadIdx.x] += sums[other];
      scaleds[threadIdx.x] += scaleds[other];
      lows[threadIdx.x] = fmin(lows[threadIdx.x], lows[other]);
      highs[threadIdx.x] = fmax(highs[threadIdx.x], highs[other]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  Output& out = outputs[tensor];
  out.nan = total[0];
  out.inf = total[1];
  out.zero = total[2];
  out.finite = total[3];
  out.sum = sums[0];
  out.scaled_sum = scaleds[0];
  out.min = total[3] == 0 ? 0 : lows[0];
  out.max = total[3] == 0 ? 0 : highs[0];
  out.squares = out.scaled_squares = 0;
  prepare(in, out, edges[tensor]);
  for (int i = 0; i < kBins; ++i) out.counts[i] = 0;
  if (edges[tensor].constant) out.counts[0] = out.finite;
}

// Histogram of one thread: sixteen counters of a byte, bins 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11
// 13 15.
struct Counters {
  u32 bytes[4];
};

template <int kElement>
__device__ __forceinline__ void spread_of_floats(const Input& in, i64 begin, i64 end,
                                                 const Edges& edges, const float* thresholds,
                                                 double& squares, Counters& counters) {
  constexpr int kPerWord = 16 / Of<kElement>::kSize;
  const Run run = split<kElement>(in, begin, end);
  const uint4* words = (const uint4*)(in.data + run.words_begin * Of<kElement>::kSize);
  const float low = edges.low, scale = edges.scale;
  const double mean = edges.mean;
  const float float_mean = (float)mean;
  u32 first = 0, second = 0;  // eight counters of four bits each
  const float middle = thresholds[kBins / 2];
  const bool dirty = edges.dirty;
  const auto clean = [&](float x) { return fabsf(x) < __uint_as_float(kInfBits) ? x : float_mean; };
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
    float part = 0;
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) {
      float x = Of<kElement>::get(w, i);
      if (dirty) x = clean(x);
      count(x);
      if (kElement == kFloat32) {
        const double d = x - mean;
        squares = fma(d, d, squares);
      } else {
        // From a mean that is rounded; combine_spread puts that right.
        const float d = x - float_mean;
        part = fmaf(d, d, part);
      }
      if (i % 8 == 7) flush();
    }
    if (kElement != kFloat32) squares += part;
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
    const float x = clean(one_float<kElement>(in.data, k < head ? run.begin + k : tail + k - head));
    count(x);
    flush();
    const double d = x - (kElement == kFloat32 ? mean : (double)float_mean);
    squares = fma(d, d, squares);
  }
}

__device__ void spread_of_any(const Input& in, i64 begin, i64 end, const Edges& edges,
                              const double* edge, double& squares, double& scaled, u32* bins) {
  for (i64 i = begin + threadIdx.x; i < end; i += kThreads) {
    const double x = load(in, i);
    if (!finite(x)) continue;
    int bin = 0;
    for (int step = 8; step != 0; step /= 2) {
      if (x >= edge[bin + step]) bin += step;
    }
    atomicAdd(&bins[bin], 1u);
    const double d = x - edges.mean;
    squares = fma(d, d, squares);
    scaled = fma(d * kShrink, d * kShrink, scaled);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    measure_spread(const Input* inputs, int tensors, const Edges* all_edges, Squares* of_tile,
                   Output* outputs) {
  const int tensor = tensor_of(inputs, tensors, blockIdx.x);
  const Input& in = inputs[tensor];
  const Edges& edges = all_edges[tensor];
  if (edges.constant) return;  // nothing is spread
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
  double squares = 0, scaled = 0;
  Counters counters = {{0, 0, 0, 0}};
  if (edges.simple) {
    switch (in.element) {
      case kFloat32:
        spread_of_floats<kFloat32>(in, begin, end, edges, thresholds, squares, counters);
        break;
      case kFloat16:
        spread_of_floats<kFloat16>(in, begin, end, edges, thresholds, squares, counters);
        break;
      default:
        spread_of_floats<kBFloat16>(in, begin, end, edges, thresholds, squares, counters);
    }
  } else {
    spread_of_any(in, begin, end, edges, edge, squares, scaled, bins);
  }
#pragma unroll
  for (int word = 0; word < 4; ++word) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Two counters of 16 bits: a warp has 32 * (kTile / kThreads) elements at most.
      u32 pair = counters.bytes[word] >> (8 * half) & 0x00FF00FFu;
      for (int distance = 16; distance != 0; distance /= 2) {
        pair += __shfl_down_sync(0xFFFFFFFFu, pair, distance);
      }
      if (threadIdx.x % 32 == 0) {
        const int bin = word / 2 * 8 + word % 2 + half * 2;
        atomicAdd(&bins[bin], pair & 0xFFFF);
        atomicAdd(&bins[bin + 4], pair >> 16);
      }
    }
  }
  squares = reduce(squares);
  scaled = reduce(scaled);
  if (threadIdx.x == 0) {
    of_tile[blockIdx.x].sum = squares;
    of_tile[blockIdx.x].scaled_sum = scaled;
  }
  __syncthreads();
  if (threadIdx.x < kBins && bins[threadIdx.x] != 0) {
    atomicAdd(&outputs[tensor].counts[threadIdx.x], (u64)bins[threadIdx.x]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    combine_spread(const Input* inputs, const Edges* edges, const Squares* of_tile,
                   Output* outputs) {
  const Input& in = inputs[blockIdx.x];
  if (edges[blockIdx.x].constant) return;
  const u32 tiles = (u32)((in.count + kTile - 1) / kTile);
  double squares = 0, scaled = 0;
  for (u32 i = threadIdx.x; i < tiles; i += kThreads) {
    squares += of_tile[in.first_tile + i].sum;
    scaled += of_tile[in.first_tile + i].scaled_sum;
  }
  squares = reduce(squares);
  scaled = reduce(scaled);
  if (threadIdx.x == 0) {
    Output& out = outputs[blockIdx.x];
    const Edges& edge = edges[blockIdx.x];
    if (edge.simple) {
      // What is not finite was counted as the mean, and of short floats the mean was rounded.
      const float mean = (float)edge.mean;
      const double off = mean - edge.mean;
      const u64 strange = out.nan + out.inf;
      const u64 too_much = in.element == kFloat32 ? strange : out.finite;
      squares = fmax(0.0, squares - off * off * too_much);
      int bin = 0;
      while (bin < kBins - 1 && mean >= edge.threshold[bin + 1]) ++bin;
      out.counts[bin] -= strange;
    }
    out.squares = squares;
    out.scaled_squares = scaled;
  }
}
