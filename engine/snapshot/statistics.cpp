#include "engine/snapshot/statistics.h"

#include <cmath>

namespace sonde::snapshot {

double Statistics::edge(int i) const noexcept {
  if (count == 0) return 0;
  const double part = i / 16.0;
  if (min == max) return min + part;
  if (i == kBins) return max;
  const double range = max - min;
  return std::isfinite(range) ? min + range * part : min * (1 - part) + max * part;
}

}  // namespace sonde::snapshot
