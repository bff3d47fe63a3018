// The marks of each span that is still open, until the record of the span comes. Bounded: a span
// lists its newest kMaxListed marks, and the lists of spans that never come (their record was
// dropped) are forgotten when there are too many. Nothing is lost: each mark names its span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/base/id.h"

namespace sonde::journal {

class MarkLists {
 public:
  static constexpr std::uint32_t kMaxListed = 1024;
  static constexpr std::size_t kMaxSpans = 1u << 16;

  void add(std::uint64_t span, std::uint64_t mark);
  // How many ids take() will append.
  std::uint32_t count(std::uint64_t span) const noexcept;
  // Appends the ids of the span's marks to `out`, oldest first, and forgets them.
  std::uint32_t take(std::uint64_t span, const base::Id& key, std::vector<base::Id>& out);

 private:
  // A span's marks nearly always come right before its own record, so the newest list is kept apart
  // and found without hashing.
  struct List {
    std::uint64_t span = 0;
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    std::vector<std::uint64_t> more;  // marks after the first; a ring once full
    std::uint32_t oldest = 0;
  };
  static void append(List& list, std::uint64_t mark);
  static void write(const List& list, const base::Id& key, std::vector<base::Id>& out);
  List newest_;
  std::unordered_map<std::uint64_t, List> others_;
};

}  // namespace sonde::journal
