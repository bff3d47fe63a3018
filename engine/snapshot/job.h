// The work on one tensor: phases that follow each other, each of pieces that any threads may do in
// any order. The results are combined in the order of the pieces, so they are always the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/snapshot/decode.h"
#include "engine/snapshot/kernels.h"
#include "engine/snapshot/layout.h"
#include "engine/snapshot/statistics.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

class Job {
 public:
  Job(const Tensor& tensor, const Kernels& kernels);

  // Pieces of the phase under way, 0 when there is nothing to do.
  std::size_t pieces() const noexcept { return done_ ? 0 : pieces_; }
  // One piece; different ones may be run at the same time.
  void run(std::size_t piece) noexcept;
  // When all of them have been run: puts the phase together. False: that was the last one.
  bool advance() noexcept;
  const Statistics& result() const noexcept { return found_; }

 private:
  enum class Phase : std::uint8_t {
    kPatterns,  // of bytes, which takes no other
    kSum,
    kRescaled,  // doubles whose squares are too large or too small
    kBins,
  };
  struct Partial {
    Sums sums;
    Deviations deviations;
    Counts counts{};
    NonFinite others;
  };

  template <typename T, typename Use>
  void each_block(std::size_t piece, bool only_finite, Use use) noexcept;
  template <typename T>
  const T* array_of(std::size_t piece) noexcept;
  template <typename T>
  void run_numbers(std::size_t piece) noexcept;
  template <typename T>
  void sum_piece(std::size_t piece) noexcept;
  template <typename T>
  void bin_piece(std::size_t piece, const Edges<T>& edges) noexcept;
  void count_piece(std::size_t piece) noexcept;
  bool finish_patterns() noexcept;
  bool finish_sums() noexcept;
  bool finish_bins() noexcept;
  bool end() noexcept;
  std::uint64_t piece_begin(std::size_t piece) const noexcept { return piece * piece_size_; }
  std::uint64_t piece_end(std::size_t piece) const noexcept;
  Partial& partial(std::size_t piece) noexcept { return many_.empty() ? one_ : many_[piece]; }

  const Kernels* kernels_;
  Element element_;
  bool in_place_;  // the kernels can read rows of the tensor itself
  bool deviate_ = false;
  bool done_ = false;
  Phase phase_;
  std::uint64_t piece_size_ = 0;
  std::size_t pieces_ = 0;
  double scale_ = 1;  // a power of two; sums and deviations are of scaled values
  double mean_ = 0;
  Sums total_;
  Edges<float> float_edges_;
  Edges<double> double_edges_;
  Statistics found_;
  Layout layout_;
  Partial one_;
  std::vector<Partial> many_;
  std::unique_ptr<std::byte[]> gathered_;  // values that lie scattered, together
  std::vector<Patterns> patterns_;
};

}  // namespace sonde::snapshot
