#include "engine/snapshot/blob_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/safetensors.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

namespace {

constexpr std::size_t kPiece = 4u << 20;

template <std::size_t Size>
std::byte* copy_row(const std::byte* from, std::int64_t count, std::int64_t stride,
                    std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i, out += Size, from += stride)
    std::memcpy(out, from, Size);
  return out;
}

// `stride` in bytes.
std::byte* copy_row(const std::byte* from, std::int64_t count, std::int64_t stride,
                    std::size_t size, std::byte* out) {
  if (stride == static_cast<std::int64_t>(size)) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size;
    std::memcpy(out, from, bytes);
    return out + bytes;
  }
  switch (size) {
    case 8:
      return copy_row<8>(from, count, stride, out);
    case 4:
      return copy_row<4>(from, count, stride, out);
    case 2:
      return copy_row<2>(from, count, stride, out);
    default:
      return copy_row<1>(from, count, stride, out);
  }
}

// Dimension `d` and those inside it.
std::byte* copy_dimension(const Tensor& tensor, std::uint32_t d, std::uint32_t last,
                          std::int64_t inner, const std::byte* from, std::byte* out) {
  const auto size = static_cast<std::int64_t>(element_size(tensor.element));
  const std::int64_t stride = tensor.strides[d] * size;
  if (d == last) return copy_row(from, inner, stride, static_cast<std::size_t>(size), out);
  for (std::int64_t i = 0; i < tensor.sizes[d]; ++i)
    out = copy_dimension(tensor, d + 1, last, inner, from + i * stride, out);
  return out;
}

}  // namespace

std::byte* copy_elements(const Tensor& tensor, std::byte* out) {
  std::uint64_t count = 1;
  for (std::uint32_t d = 0; d < tensor.rank; ++d)
    count *= static_cast<std::uint64_t>(tensor.sizes[d]);
  if (count == 0) return out;
  const std::size_t size = element_size(tensor.element);
  const auto* from = static_cast<const std::byte*>(tensor.data);
  // The inner dimensions, as far as they lie without gaps, are one row.
  std::int64_t row = 1;
  std::uint32_t outer = tensor.strides == nullptr ? 0 : tensor.rank;
  while (outer > 0 && (tensor.sizes[outer - 1] == 1 || tensor.strides[outer - 1] == row))
    row *= tensor.sizes[--outer];
  if (outer == 0) {
    std::memcpy(out, from, count * size);
    return out + count * size;
  }
  if (row == 1) return copy_dimension(tensor, 0, outer - 1, tensor.sizes[outer - 1], from, out);
  // Rows of several elements: every dimension left steps from row to row.
  std::vector<std::int64_t> index(outer, 0);
  const std::size_t row_bytes = static_cast<std::size_t>(row) * size;
  for (std::uint64_t rows = count / static_cast<std::uint64_t>(row); rows > 0; --rows) {
    std::memcpy(out, from, row_bytes);
    out += row_bytes;
    for (std::uint32_t d = outer; d-- > 0;) {
      const std::int64_t step = tensor.strides[d] * static_cast<std::int64_t>(size);
      from += step;
      if (++index[d] < tensor.sizes[d]) break;
      from -= step * tensor.sizes[d];
      index[d] = 0;
    }
  }
  return out;
}

std::unique_ptr<BlobCopy> BlobCopy::take(BlobRoom room, std::vector<SafeTensor> described,
                                         std::span<const Tensor> tensors) {
  std::unique_ptr<BlobCopy> copy(new BlobCopy);
  copy->room_ = std::move(room);
  for (const SafeTensor& tensor : described) copy->size_ += tensor.bytes();
  if (copy->size_ != 0) {
    void* data =
        ::mmap(nullptr, copy->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    copy->data_ = static_cast<std::byte*>(data);
    // No huge pages: where memory is in pieces, finding one stops the host for longer than it
    // saves.
    ::madvise(data, copy->size_, MADV_DONTFORK);
  }
  std::byte* out = copy->data_;
  for (const std::size_t i : file_order(described)) {
    out = copy_elements(tensors[i], out);
    copy->tensors_.push_back(std::move(described[i]));
  }
  return copy;
}

BlobCopy::~BlobCopy() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

base::Status BlobCopy::next(std::span<const std::byte>& piece) noexcept {
  if (at_ >= kPiece) ::madvise(data_ + (at_ - kPiece), kPiece, MADV_DONTNEED);
  piece = {data_ + at_, std::min(kPiece, size_ - at_)};
  at_ += piece.size();
  return {};
}

}  // namespace sonde::snapshot
