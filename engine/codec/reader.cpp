#include "engine/codec/reader.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/codec/batch_parser.h"
#include "engine/codec/detail.h"
#include "engine/codec/fault.h"
#include "engine/codec/json_text.h"
#include "engine/model/trace.h"

namespace sonde::codec {

char* PaddedText::prepare(std::size_t size) {
  if (size + BatchParser::kPadding > capacity_) {
    capacity_ = size + size / 4 + BatchParser::kPadding;
    data_ = std::make_unique_for_overwrite<char[]>(capacity_);
  }
  return data_.get();
}

void PaddedText::seal(std::size_t size) {
  std::memset(data_.get() + size, ' ', BatchParser::kPadding);
  size_ = size;
}

void PaddedText::assign(std::string_view text) {
  char* data = prepare(text.size());
  if (!text.empty()) std::memcpy(data, text.data(), text.size());
  seal(text.size());
}

struct Reader::Parts {
  BatchParser parser;
  PaddedText copy;
};

Reader::Reader() : parts_(std::make_unique<Parts>()) {}
Reader::~Reader() = default;

base::Status Reader::read(const PaddedText& text, const std::string& name, model::Batch& out,
                          Detail detail) {
  out.clear();
  Fault fault = parts_->parser.parse(text.view(), detail, out);
  std::string legal;
  if (fault.error == EINVAL && quote_non_finite(text.view(), legal)) {
    out.clear();
    PaddedText quoted;
    quoted.assign(legal);
    fault = parts_->parser.parse(quoted.view(), detail, out);
  }
  if (fault.error == 0) return {};
  out.clear();
  return {fault.error, "cannot read " + name + " as a batch of a spool (" + fault.reason + ")"};
}

base::Status Reader::read_text(std::string_view json, const std::string& name, model::Batch& out,
                               Detail detail) {
  parts_->copy.assign(json);
  return read(parts_->copy, name, out, detail);
}

}  // namespace sonde::codec
