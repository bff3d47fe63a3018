#include "engine/snapshot/join.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/safetensors.h"

namespace sonde::snapshot {

namespace {

class JoinedPending : public Pending {
 public:
  struct Part {
    Capture capture;
    std::size_t first;  // of its records in the whole
  };
  explicit JoinedPending(std::vector<Part> parts) : parts_(std::move(parts)) {}

  bool ready() noexcept override {
    return std::ranges::all_of(parts_,
                               [](const Part& part) { return part.capture.pending->ready(); });
  }
  void complete(Capture& whole, bool give_up) noexcept override {
    for (Part& part : parts_) {
      part.capture.pending->complete(part.capture, give_up);
      const std::size_t known = std::min(part.capture.statistics.size(), part.capture.size());
      std::copy_n(part.capture.statistics.begin(), known,
                  whole.statistics.begin() + static_cast<std::ptrdiff_t>(part.first));
    }
  }

 private:
  std::vector<Part> parts_;
};

// Each part has the tensors with the widest elements first, and the whole needs that order too, so
// it takes tensors from the parts in turn.
class JoinedBlob : public BlobSource {
 public:
  explicit JoinedBlob(std::vector<std::unique_ptr<BlobSource>> parts) {
    std::vector<SafeTensor> all;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const SafeTensor& tensor : parts[i]->tensors()) {
        all.push_back(tensor);
        owner.push_back(i);
      }
      parts_.push_back({std::move(parts[i]), {}});
    }
    for (const std::size_t i : file_order(all)) {
      if (turns_.empty() || turns_.back().part != owner[i]) turns_.push_back({owner[i], 0});
      turns_.back().bytes += all[i].bytes();
      tensors_.push_back(std::move(all[i]));
    }
  }

  std::span<const SafeTensor> tensors() const noexcept override { return tensors_; }

  base::Status next(std::span<const std::byte>& piece) noexcept override {
    piece = {};
    while (at_ < turns_.size() && turns_[at_].bytes == 0) ++at_;
    if (at_ == turns_.size()) return {};
    Turn& turn = turns_[at_];
    Part& part = parts_[turn.part];
    if (part.left.empty()) {
      if (base::Status status = part.source->next(part.left); !status.ok()) return status;
      if (part.left.empty()) return {EPROTO, "a part of a blob ended early"};
    }
    piece = part.left.first(std::min<std::uint64_t>(part.left.size(), turn.bytes));
    part.left = part.left.subspan(piece.size());
    turn.bytes -= piece.size();
    return {};
  }

 private:
  struct Part {
    std::unique_ptr<BlobSource> source;
    std::span<const std::byte> left;  // of its last piece
  };
  struct Turn {
    std::size_t part;
    std::uint64_t bytes;
  };
  std::vector<Part> parts_;
  std::vector<Turn> turns_;
  std::vector<SafeTensor> tensors_;
  std::size_t at_ = 0;
};

}  // namespace

Capture join(std::vector<Capture> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Capture whole;
  auto catalogue = std::make_shared<Catalogue>();
  std::vector<JoinedPending::Part> waiting;
  for (Capture& part : parts) {
    const std::size_t first = catalogue->size();
    for (Entry entry : *part.catalogue) {
      if (!entry.attrs.empty() && !part.attrs.empty()) entry.attrs += ',';
      entry.attrs += part.attrs;
      catalogue->push_back(std::move(entry));
    }
    whole.statistics.insert(whole.statistics.end(), part.statistics.begin(), part.statistics.end());
    whole.statistics.resize(catalogue->size());
    whole.in_blob.insert(whole.in_blob.end(), part.in_blob.begin(), part.in_blob.end());
    whole.in_blob.resize(catalogue->size(), false);
    whole.span_id = part.span_id;
    whole.ts_ns = part.ts_ns;
    whole.kind = part.kind;
    whole.epoch = part.epoch;
    whole.step = part.step;
    whole.mode = part.mode;
    if (part.pending) waiting.push_back({std::move(part), first});
  }
  whole.catalogue = std::move(catalogue);
  if (!waiting.empty()) whole.pending = std::make_unique<JoinedPending>(std::move(waiting));
  return whole;
}

std::unique_ptr<BlobSource> join(std::vector<std::unique_ptr<BlobSource>> parts) {
  std::erase(parts, nullptr);
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedBlob>(std::move(parts));
}

}  // namespace sonde::snapshot
