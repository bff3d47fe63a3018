// A copy of tensors that lie in memory, for a blob.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/safetensors.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

// A copy in memory that a forked child does not inherit, and that is freed piece by piece as it is
// written.
class BlobCopy : public BlobSource {
 public:
  // tensors[i] is described by described[i] and made contiguous. Null where the memory cannot be
  // had. Takes as long as copying takes: in a Python process, without the GIL.
  static std::unique_ptr<BlobCopy> take(BlobRoom room, std::vector<SafeTensor> described,
                                        std::span<const Tensor> tensors);
  ~BlobCopy() override;

  std::span<const SafeTensor> tensors() const noexcept override { return tensors_; }
  base::Status next(std::span<const std::byte>& piece) noexcept override;

 private:
  BlobCopy() = default;
  BlobRoom room_;
  std::vector<SafeTensor> tensors_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0, at_ = 0;
};

// Writes the elements of a tensor one after the other; returns the end.
std::byte* copy_elements(const Tensor& tensor, std::byte* out);

}  // namespace sonde::snapshot
