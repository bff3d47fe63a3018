// How Memory lays out a span and a mark. For memory.cpp and memory_reading.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "engine/base/id.h"
#include "engine/model/trace.h"
#include "engine/session/memory.h"

namespace sonde::session {

inline constexpr std::size_t kRowsPerChunk = 1024;

struct Memory::Row {
  base::Id id, parent_id;
  std::int64_t start_ns, end_ns, index, gpu_ns, memory_peak_bytes;
  std::uint64_t thread_id;
  char* text = nullptr;    // owned
  std::uint32_t name = 0;  // interned id; 0: the first name_length bytes of text
  std::uint32_t name_length = 0, attrs_length = 0;
  ClosedMarks marks;
  ~Row() { std::free(text); }
};

struct Memory::MarkRow {
  base::Id id;
  std::int64_t ts_ns;
  union {
    double real;
    std::int64_t integer;
  };
  char* text = nullptr;  // owned: name unless interned, then the value
  std::uint32_t name = 0;
  std::uint32_t next = kNil;
  std::uint16_t name_length = 0, text_length = 0;  // a record's text is shorter than 64 KiB
  model::ValueType type;
  bool summary;
  ~MarkRow() { std::free(text); }
};

inline Memory::Row& Memory::row(std::size_t position) const {
  const std::size_t at = position % (chunks_.size() * kRowsPerChunk);
  return chunks_[at / kRowsPerChunk][at % kRowsPerChunk];
}

inline Memory::MarkRow& Memory::mark_row(std::uint32_t number) const {
  return mark_chunks_[number / kRowsPerChunk][number % kRowsPerChunk];
}

}  // namespace sonde::session
