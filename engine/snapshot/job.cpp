#include "engine/snapshot/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "engine/snapshot/decode.h"
#include "engine/snapshot/kernels.h"
#include "engine/snapshot/layout.h"
#include "engine/snapshot/statistics.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

namespace {

// 256 KiB of float32: half of what a core has to itself, and 20 us of work.
constexpr std::uint64_t kPiece = 1 << 16;
// A large tensor is cut into larger pieces, so that what is kept of each stays small.
constexpr std::uint64_t kMostPieces = 4096;
// Rows that are worth a call of a kernel each; shorter ones are gathered first.
constexpr std::uint64_t kLongRow = 512;
// Scattered values up to this many are gathered once for both passes; of more, each pass gathers.
constexpr std::uint64_t kGathered = 1 << 20;

// Where sum of squares minus square of sum loses more than ten of 53 bits, deviations from the mean
// are added up instead.
constexpr double kCancelled = 1.0 / 1024;
// Squares of smaller doubles are subnormal, or nothing.
constexpr double kTiny = 1e-140;

template <typename T>
Edges<T> edges_of(const Statistics& found) noexcept {
  Edges<T> edges;
  edges.low = static_cast<T>(found.min);
  for (int i = 0; i < 15; ++i) {
    const double exact = found.edge(i + 1);
    auto rounded = static_cast<T>(exact);
    if (rounded < exact) rounded = std::nextafter(rounded, std::numeric_limits<T>::infinity());
    edges.upper[static_cast<std::size_t>(i)] = rounded;
  }
  edges.upper[15] = std::numeric_limits<T>::infinity();
  const double range = found.max - found.min;
  const auto scale = static_cast<T>(16 / range);
  // Where values lie closer together than this, rounding moves a double's edges by a part of a bin.
  const double near = 0x1p-28 * std::max(std::abs(found.min), std::abs(found.max));
  if (range < std::numeric_limits<T>::max() / 2 && range >= near && std::isfinite(scale))
    edges.scale = scale;
  return edges;
}

// Cuts a tile into some of at most kBlock values.
template <typename Visit>
void each_chunk(const Tile& tile, std::size_t element_size, Visit visit) noexcept {
  const auto size = static_cast<std::int64_t>(element_size);
  if (tile.count <= kBlock) {
    Tile now = tile;
    for (std::uint64_t left = tile.rows; left != 0; left -= now.rows) {
      now.rows = std::min(left, kBlock / tile.count);
      visit(now);
      now.at += static_cast<std::int64_t>(now.rows) * tile.row_stride * size;
    }
    return;
  }
  for (std::uint64_t row = 0; row < tile.rows; ++row) {
    Tile now{tile.at + static_cast<std::int64_t>(row) * tile.row_stride * size, tile.stride, 0, 1,
             0};
    for (std::uint64_t left = tile.count; left != 0; left -= now.count) {
      now.count = std::min<std::uint64_t>(left, kBlock);
      visit(now);
      now.at += static_cast<std::int64_t>(now.count) * tile.stride * size;
    }
  }
}

bool aligned(const std::byte* at, std::size_t size) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % size == 0;
}

}  // namespace

Job::Job(const Tensor& tensor, const Kernels& kernels)
    : kernels_(&kernels),
      element_(tensor.element),
      phase_(number_of(tensor.element) == Number::kPattern ? Phase::kPatterns : Phase::kSum),
      layout_(tensor) {
  in_place_ = (element_ == Element::kFloat32 || element_ == Element::kFloat64) &&
              aligned(layout_.base(), element_size(element_));
  done_ = layout_.size() == 0;
  piece_size_ = std::max(kPiece, (layout_.size() + kMostPieces - 1) / kMostPieces);
  pieces_ = static_cast<std::size_t>((layout_.size() + piece_size_ - 1) / piece_size_);
  if (phase_ == Phase::kPatterns) {
    patterns_.resize(pieces_);
  } else if (pieces_ > 1) {
    many_.resize(pieces_);
  }
  if (phase_ == Phase::kSum && layout_.scattered(kLongRow) && layout_.size() <= kGathered) {
    const std::size_t width =
        number_of(element_) == Number::kFloat ? sizeof(float) : sizeof(double);
    gathered_ = std::make_unique_for_overwrite<std::byte[]>(layout_.size() * width);
  }
}

std::uint64_t Job::piece_end(std::size_t piece) const noexcept {
  return std::min(layout_.size(), (piece + 1) * piece_size_);
}

void Job::run(std::size_t piece) noexcept {
  switch (number_of(element_)) {
    case Number::kPattern:
      return count_piece(piece);
    case Number::kFloat:
      return run_numbers<float>(piece);
    case Number::kDouble:
      return run_numbers<double>(piece);
  }
}

bool Job::advance() noexcept {
  switch (phase_) {
    case Phase::kPatterns:
      return finish_patterns();
    case Phase::kSum:
    case Phase::kRescaled:
      return finish_sums();
    case Phase::kBins:
      break;
  }
  return finish_bins();
}

// The piece as the kernels can read it, nullptr where it has to be decoded block by block.
template <typename T>
const T* Job::array_of(std::size_t piece) noexcept {
  const std::uint64_t begin = piece_begin(piece);
  if (in_place_ && layout_.dense()) return reinterpret_cast<const T*>(layout_.base()) + begin;
  if (gathered_ == nullptr) return nullptr;
  T* values = reinterpret_cast<T*>(gathered_.get()) + begin;
  if (phase_ != Phase::kSum) return values;
  T* out = values;
  layout_.each_tile(begin, piece_end(piece), [&](const Tile& tile) {
    each_chunk(tile, element_size(element_), [&](const Tile& now) {
      decode(element_, *kernels_, now, out);
      out += now.rows * now.count;
    });
  });
  return values;
}

template <typename T, typename Use>
void Job::each_block(std::size_t piece, bool only_finite, Use use) noexcept {
  const std::uint64_t begin = piece_begin(piece), end = piece_end(piece);
  if (!only_finite) {
    if (const T* values = array_of<T>(piece))
      return use(values, static_cast<std::size_t>(end - begin));
  }
  alignas(64) std::array<T, kBlock> block;
  std::size_t filled = 0;
  NonFinite others;
  const auto flush = [&] {
    if (only_finite) {
      if constexpr (sizeof(T) == sizeof(float))
        filled = kernels_->keep_finite_floats(block.data(), filled, others);
      else
        filled = kernels_->keep_finite_doubles(block.data(), filled, others);
    }
    if (filled != 0) use(block.data(), filled);
    filled = 0;
  };
  const std::size_t size = element_size(element_);
  layout_.each_tile(begin, end, [&](const Tile& tile) {
    if (in_place_ && !only_finite && tile.stride == 1 && tile.count >= kLongRow) {
      const std::int64_t step = tile.row_stride * static_cast<std::int64_t>(size);
      for (std::uint64_t row = 0; row < tile.rows; ++row)
        use(reinterpret_cast<const T*>(tile.at + static_cast<std::int64_t>(row) * step),
            static_cast<std::size_t>(tile.count));
      return;
    }
    each_chunk(tile, size, [&](const Tile& now) {
      const auto count = static_cast<std::size_t>(now.rows * now.count);
      if (count > kBlock - filled) flush();
      decode(element_, *kernels_, now, block.data() + filled);
      filled += count;
    });
  });
  if (filled != 0) flush();
  partial(piece).others = others;
}

template <typename T>
void Job::run_numbers(std::size_t piece) noexcept {
  if (phase_ != Phase::kBins) return sum_piece<T>(piece);
  if constexpr (sizeof(T) == sizeof(float))
    bin_piece(piece, float_edges_);
  else
    bin_piece(piece, double_edges_);
}

// A sum of squares that is not finite tells of values that are not: those are rare, so the piece is
// then done again without them.
template <typename T>
void Job::sum_piece(std::size_t piece) noexcept {
  Partial& out = partial(piece);
  bool only_finite = out.others.all() != 0;
  for (;; only_finite = true) {
    out.sums = Sums();
    each_block<T>(piece, only_finite, [&](const T* values, std::size_t count) {
      Sums sums;
      if constexpr (sizeof(T) == sizeof(float))
        kernels_->sum_floats(values, count, sums);
      else
        kernels_->sum_doubles(values, count, scale_, sums);
      out.sums.add(sums);
    });
    if (only_finite || std::isfinite(out.sums.squares)) return;
  }
}

template <typename T>
void Job::bin_piece(std::size_t piece, const Edges<T>& edges) noexcept {
  Partial& out = partial(piece);
  const bool only_finite = out.others.all() != 0;
  each_block<T>(piece, only_finite, [&](const T* values, std::size_t count) {
    Deviations deviations;
    if constexpr (sizeof(T) == sizeof(float)) {
      kernels_->bin_floats(values, count, edges, out.counts);
      if (deviate_) kernels_->deviate_floats(values, count, mean_, deviations);
    } else {
      kernels_->bin_doubles(values, count, edges, out.counts);
      if (deviate_) kernels_->deviate_doubles(values, count, scale_, mean_, deviations);
    }
    out.deviations.add(deviations);
  });
}

bool Job::finish_sums() noexcept {
  total_ = Sums();
  NonFinite others;
  for (std::size_t i = 0; i < pieces_; ++i) {
    total_.add(partial(i).sums);
    others.add(partial(i).others);
  }
  found_.nan_count = others.nans * layout_.repeats();
  found_.inf_count = others.infinities * layout_.repeats();
  found_.minus_inf_count = others.minus_infinities * layout_.repeats();
  found_.count = layout_.size() - others.all();  // each once, until the end
  if (found_.count == 0) return end();
  found_.min = total_.min;
  found_.max = total_.max;
  found_.zero_count = total_.zeros * layout_.repeats();
  const double largest = std::max(std::abs(found_.min), std::abs(found_.max));
  const bool out_of_range = !std::isfinite(total_.squares) || (largest > 0 && largest < kTiny);
  if (out_of_range && phase_ == Phase::kSum && number_of(element_) == Number::kDouble) {
    scale_ = std::ldexp(1, std::clamp(-std::ilogb(largest), -1000, 1000));
    phase_ = Phase::kRescaled;
    return true;
  }
  const auto count = static_cast<double>(found_.count);
  mean_ = std::clamp(total_.sum / count, found_.min * scale_, found_.max * scale_);
  found_.norm = std::sqrt(total_.squares * static_cast<double>(layout_.repeats())) / scale_;
  found_.mean = mean_ / scale_;
  if (found_.min == found_.max) {
    found_.mean = found_.min;
    found_.counts[0] = found_.count;
    return end();
  }
  const double deviations = total_.squares - total_.sum * (total_.sum / count);
  deviate_ = !(deviations > total_.squares * kCancelled);
  if (!deviate_) found_.std = std::sqrt(deviations / count) / scale_;
  if (number_of(element_) == Number::kFloat)
    float_edges_ = edges_of<float>(found_);
  else
    double_edges_ = edges_of<double>(found_);
  phase_ = Phase::kBins;
  return true;
}

bool Job::finish_bins() noexcept {
  Deviations deviations;
  for (std::size_t i = 0; i < pieces_; ++i) {
    const Partial& part = partial(i);
    deviations.add(part.deviations);
    for (std::size_t bin = 0; bin < found_.counts.size(); ++bin)
      found_.counts[bin] += part.counts[bin];
  }
  if (deviate_) {
    const auto count = static_cast<double>(found_.count);
    const double off = deviations.sum / count;
    const double squares = std::max(0.0, deviations.squares - deviations.sum * off);
    found_.std = std::sqrt(squares / count) / scale_;
    found_.mean = std::clamp((mean_ + off) / scale_, found_.min, found_.max);
  }
  return end();
}

bool Job::end() noexcept {
  found_.count *= layout_.repeats();
  for (std::uint64_t& count : found_.counts) count *= layout_.repeats();
  done_ = true;
  return false;
}

void Job::count_piece(std::size_t piece) noexcept {
  PatternCounter counter;
  layout_.each_tile(piece_begin(piece), piece_end(piece),
                    [&](const Tile& tile) { counter.add(tile); });
  counter.give(patterns_[piece]);
}

// 256 values with a weight each.
bool Job::finish_patterns() noexcept {
  Patterns total{};
  for (const Patterns& piece : patterns_)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += piece[i];
  std::array<double, 256> values;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const double value = values[i] = value_of(element_, static_cast<std::uint8_t>(i));
    const std::uint64_t count = total[i];
    if (count == 0) continue;
    if (std::isnan(value)) {
      found_.nan_count += count * layout_.repeats();
    } else if (std::isinf(value)) {
      found_.inf_count += count * layout_.repeats();
      if (value < 0) found_.minus_inf_count += count * layout_.repeats();
    } else {
      found_.min = found_.count == 0 ? value : std::min(found_.min, value);
      found_.max = found_.count == 0 ? value : std::max(found_.max, value);
      found_.count += count;
      if (value == 0) found_.zero_count += count * layout_.repeats();
      sum += value * static_cast<double>(count);
      squares += value * value * static_cast<double>(count);
    }
  }
  if (found_.count == 0) return end();
  found_.mean = std::clamp(sum / static_cast<double>(found_.count), found_.min, found_.max);
  found_.norm = std::sqrt(squares * static_cast<double>(layout_.repeats()));
  std::array<double, 15> edges;
  for (int i = 0; i < 15; ++i) edges[static_cast<std::size_t>(i)] = found_.edge(i + 1);
  double deviations = 0;
  for (std::size_t i = 0; i < total.size(); ++i) {
    if (total[i] == 0 || !std::isfinite(values[i])) continue;
    const double away = values[i] - found_.mean;
    deviations += away * away * static_cast<double>(total[i]);
    const auto bin = found_.min == found_.max
                         ? 0
                         : std::upper_bound(edges.begin(), edges.end(), values[i]) - edges.begin();
    found_.counts[static_cast<std::size_t>(bin)] += total[i];
  }
  found_.std = std::sqrt(deviations / static_cast<double>(found_.count));
  return end();
}

}  // namespace sonde::snapshot
