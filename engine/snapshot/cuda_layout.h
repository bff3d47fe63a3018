// What the host and the kernels hand each other. Compiled for both, for the kernels without any
// header of a library: plain types.
#pragma once

#include "engine/snapshot/element.h"

namespace sonde::snapshot::cuda {

constexpr int kTile = 32768;  // elements that one block of threads measures
constexpr int kThreads = 256;
constexpr int kBins = 16;
constexpr int kMaxRank = 8;
// The squares of huge doubles overflow and those of tiny ones vanish, although the root of their
// sum would fit. So they are also taken of the values times these factors.
constexpr double kShrink = 7.458340731200207e-155;  // 2^-512
constexpr double kGrow = 1.3407807929942597e154;    // 2^512

struct Input {
  unsigned long long data;
  long long count;
  unsigned first_tile;
  Element element;
  unsigned char rank;  // 0: one run of memory
  long long sizes[kMaxRank];
  long long strides[kMaxRank];  // in elements
};

// What is known of a tile. The sums are of distances from one of its values, so that nothing
// cancels out.
struct Moments {
  double shift, sum, squares, shrunk_sum, shrunk_squares, grown_squares, min, max;
  unsigned nan, inf, minus_inf, zero, finite;  // minus_inf: of inf
};

struct Edges {  // of a tensor
  double edge[kBins];
  float threshold[kBins + 1];  // the smallest float that is not below the edge
  float low, scale;
  unsigned simple;    // floats are fine enough to find the nearest edge
  unsigned dirty;     // some values are not finite
  unsigned constant;  // all finite values are the same
};

struct Output {  // of a tensor
  double mean, min, max;
  double squares, unit;  // of the distances from the mean, times this unit
  unsigned long long nan, inf, minus_inf, zero, finite;  // minus_inf: of inf
  unsigned long long counts[kBins];
  unsigned counted;  // what is not finite is in the first bin too
  unsigned reserved;
};

}  // namespace sonde::snapshot::cuda
