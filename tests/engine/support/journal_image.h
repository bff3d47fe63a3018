// A journal written by hand, byte by byte where a test wants it wrong.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "engine/journal/ring_reader.h"
#include "engine/record/layout.h"

namespace sonde::testing {

// `blocks` blocks, of which number 1 holds lanes and the others are free until ring() takes them.
class JournalImage {
 public:
  explicit JournalImage(std::uint32_t blocks = 8)
      : blocks_(blocks),
        bytes_(record::kBlocksOffset + std::size_t{blocks} * record::kBlockBytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_)), &std::free) {
    std::memset(memory_.get(), 0, bytes_);
    record::Header& head = header();
    std::memcpy(head.magic, record::kJournalMagic, sizeof head.magic);
    head.version = record::kJournalVersion;
    head.header_bytes = record::kHeaderBytes;
    head.key = {0x1234, 0x5678};
    head.anchor = {1000, 1'000'000};
    head.names_used.store(8);
    head.block_count.store(blocks);
    block(1).type.store(record::BlockType::kLanes);
    for (std::uint32_t i = 0; i < 4; ++i) {
      lane(i).number = i;
      lane(i).next_sequence = (std::uint64_t{i} << record::kSequenceBits) + 1;
    }
  }

  record::Header& header() { return *reinterpret_cast<record::Header*>(memory_.get()); }
  record::BlockHeader& block(std::uint32_t number) {
    return *reinterpret_cast<record::BlockHeader*>(memory_.get() + record::kBlocksOffset +
                                                   std::size_t{number} * record::kBlockBytes);
  }
  record::Lane& lane(std::uint32_t number) {
    return *reinterpret_cast<record::Lane*>(reinterpret_cast<std::byte*>(&block(1)) +
                                            record::kSlotBytes + number * record::kLaneBytes);
  }
  std::byte* slot(std::uint32_t block_number, std::uint32_t index) {
    return reinterpret_cast<std::byte*>(&block(block_number)) +
           (1 + std::size_t{index}) * record::kSlotBytes;
  }

  std::uint32_t name(std::string_view text) {
    const std::size_t offset = header().names_used.load();
    const auto length = static_cast<std::uint32_t>(text.size());
    std::byte* entry = memory_.get() + record::kNamesOffset + offset;
    std::memcpy(entry, &length, sizeof length);
    std::memcpy(entry + sizeof length, text.data(), text.size());
    header().names_used.store((offset + sizeof length + text.size() + 7) / 8 * 8);
    return static_cast<std::uint32_t>(offset / 8);
  }

  // Makes `number` the ring block that begins at `base`.
  void ring(std::uint32_t number, std::uint64_t base) {
    block(number).type.store(record::BlockType::kRing);
    block(number).base = base;
  }
  void link(std::uint32_t from, std::uint32_t to, std::uint64_t end) {
    block(from).end = end;
    block(from).next.store(to);
  }

  static record::SpanRecord span(std::uint64_t sequence, std::uint32_t name,
                                 std::uint64_t start = 2000, std::uint64_t end = 3000) {
    record::SpanRecord record = {};
    record.kind = record::RecordKind::kSpan;
    record.sequence = sequence;
    record.name = name;
    record.start_ns = start;
    record.end_ns = end;
    return record;
  }
  template <typename Record>
  void put(std::uint32_t block_number, std::uint32_t index, const Record& record) {
    std::memcpy(slot(block_number, index), &record, sizeof record);
  }

  journal::View view() const { return {memory_.get(), blocks_}; }
  std::string_view bytes() const { return {reinterpret_cast<const char*>(memory_.get()), bytes_}; }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

 private:
  std::uint32_t blocks_;
  std::size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
};

}  // namespace sonde::testing
