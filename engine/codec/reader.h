// Turns the bytes of a spool v1 batch into trace values, whether Sonde or the reference SDK wrote
// them. Needs no file system, so a collector can parse what it receives.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/codec/detail.h"
#include "engine/model/trace.h"

namespace sonde::codec {

// A text, followed by the blank padding that the parser wants. The buffer grows and is kept: a
// summary reads thousands of files of about the same size.
class PaddedText {
 public:
  // Makes room for `size` bytes and discards the contents.
  char* prepare(std::size_t size);
  // Sets how many of them were filled.
  void seal(std::size_t size);
  void assign(std::string_view text);
  std::string_view view() const noexcept { return {data_.get(), size_}; }

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

// Keeps its parser and buffers between batches.
class Reader {
 public:
  Reader();
  ~Reader();
  // Replaces the contents of `out`. Unknown keys are skipped. A newer schema_version is EPROTO and
  // text that is not a batch is EINVAL; both have `name` in the message, which says where the text
  // is from. `out` is empty after an error.
  base::Status read(const PaddedText& text, const std::string& name, model::Batch& out,
                    Detail detail = Detail::kAll);
  // The same for a text without padding, which costs a copy. It is for a receiver of batches.
  base::Status read_text(std::string_view json, const std::string& name, model::Batch& out,
                         Detail detail = Detail::kAll);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sonde::codec
