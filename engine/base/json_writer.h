// The one JSON writer. It escapes and never alters data: a float always looks like a float, a lone
// surrogate becomes its \u escape. JSON has no number that is not finite, and strict readers must
// be able to read the file exactly when a loss diverges: number() writes one as the text "NaN",
// "Infinity" or "-Infinity", which is the form of attributes. Marks and tensors have null instead
// and a name beside it (base/non_finite.h); their writers see to that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/id.h"

namespace sonde::base {

// A growing text buffer with the primitives of JSON; structure (commas, braces) is the caller's,
// because the callers write fixed shapes and a general state machine would cost a third of the
// rate.
class JsonWriter {
 public:
  JsonWriter() = default;
  JsonWriter(JsonWriter&& other) noexcept { swap(other); }
  JsonWriter& operator=(JsonWriter&& other) noexcept {
    swap(other);
    return *this;
  }
  ~JsonWriter();

  void raw(std::string_view text) {
    if (text.empty()) return;  // its pointer may be null, which memcpy must not see
    char* out = reserve(text.size());
    std::memcpy(out, text.data(), text.size());
    size_ += text.size();
  }
  void raw(char c) {
    *reserve(1) = c;
    ++size_;
  }
  void string(std::string_view utf8);  // quoted and escaped
  void number(std::int64_t value);
  void number(std::uint64_t value);
  void number(double value);
  void boolean(bool value) { raw(value ? std::string_view("true") : std::string_view("false")); }
  void null() { raw("null"); }
  void hex(const Id& id) {  // quoted
    char* out = reserve(34);
    out[0] = '"';
    write_hex(id, out + 1);
    out[33] = '"';
    size_ += 34;
  }

  std::string_view view() const noexcept { return {data_, size_}; }
  std::string str() const { return std::string(view()); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }
  // Room for `bytes` more; the caller writes there and then calls advance.
  char* reserve(std::size_t bytes) {
    if (bytes > capacity_ - size_) grow(bytes);
    return data_ + size_;
  }
  void advance(std::size_t bytes) noexcept { size_ += bytes; }

 private:
  void grow(std::size_t bytes);
  void escape(std::string_view utf8);
  void swap(JsonWriter& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  // Small buffers come from the heap, large ones straight from the system: the JSON of a batch
  // comes and goes with every flush, and in a thread's heap it would leave holes that never go
  // back.
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace sonde::base
