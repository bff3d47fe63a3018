// A copy of tensors for a blob where some lie on GPUs. There the copy is taken in the device's own
// memory, at its speed and in the order of the training's stream; the bytes come to the host in
// pieces, while the file is written. Where the device has no room for a copy, it is taken in the
// host's memory, which the call then waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/safetensors.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

// A tensor and the place of its memory. On a GPU it is contiguous.
struct Placed {
  Tensor tensor;
  int device = -1;         // -1: in memory
  void* stream = nullptr;  // of that device: the one whose order counts
};

class CudaCopy final : public BlobSource {
 public:
  // As BlobCopy::take. `reserve` is asked for what is copied into the host's memory.
  using Reserve = BlobRoom (*)(std::uint64_t bytes);
  static std::unique_ptr<CudaCopy> take(Reserve reserve, std::vector<SafeTensor> described,
                                        std::span<const Placed> tensors);
  ~CudaCopy() override;

  std::span<const SafeTensor> tensors() const noexcept override { return tensors_; }
  base::Status next(std::span<const std::byte>& piece) noexcept override;

 private:
  struct Part;
  CudaCopy();
  bool gather(std::span<const Placed> tensors);
  bool make_room(Part& part);
  bool stage(std::span<const Placed> tensors, std::size_t first, Part& part);
  bool bring(std::span<const Placed> tensors, std::size_t first, Part& part);

  Reserve reserve_ = nullptr;
  std::vector<SafeTensor> tensors_;
  std::vector<Part> parts_;
  std::size_t part_ = 0;
  std::uint64_t at_ = 0;  // in the part
};

}  // namespace sonde::snapshot
