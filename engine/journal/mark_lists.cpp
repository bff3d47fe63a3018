#include "engine/journal/mark_lists.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/id.h"

namespace sonde::journal {

void MarkLists::append(List& list, std::uint64_t mark) {
  if (list.count == 0) {
    list.first = mark;
  } else if (list.count < kMaxListed) {
    list.more.push_back(mark);
  } else {
    // Full: `first` is a slot of the ring like the others, at position 0.
    if (list.oldest == 0) {
      list.first = mark;
    } else {
      list.more[list.oldest - 1] = mark;
    }
    list.oldest = (list.oldest + 1) % kMaxListed;
    return;
  }
  ++list.count;
}

void MarkLists::write(const List& list, const base::Id& key, std::vector<base::Id>& out) {
  for (std::uint32_t i = 0; i < list.count; ++i) {
    const std::uint32_t at = (list.oldest + i) % list.count;
    out.push_back(base::make_id(key, at == 0 ? list.first : list.more[at - 1]));
  }
}

void MarkLists::add(std::uint64_t span, std::uint64_t mark) {
  if (newest_.span == span) return append(newest_, mark);
  if (newest_.count != 0) {
    if (others_.size() >= kMaxSpans) others_.clear();
    const std::uint64_t old = newest_.span;
    others_[old] = std::exchange(newest_, {});
  }
  newest_.count = 0;
  newest_.oldest = 0;
  newest_.more.clear();
  if (const auto found = others_.find(span); found != others_.end()) {
    newest_ = std::move(found->second);
    others_.erase(found);
  }
  newest_.span = span;
  append(newest_, mark);
}

std::uint32_t MarkLists::count(std::uint64_t span) const noexcept {
  if (newest_.span == span) return newest_.count;
  const auto found = others_.find(span);
  return found == others_.end() ? 0 : found->second.count;
}

std::uint32_t MarkLists::take(std::uint64_t span, const base::Id& key, std::vector<base::Id>& out) {
  if (newest_.span == span) {
    const std::uint32_t count = newest_.count;
    write(newest_, key, out);
    newest_.span = 0;
    newest_.count = newest_.oldest = 0;
    newest_.more.clear();
    return count;
  }
  if (others_.empty()) return 0;
  const auto found = others_.find(span);
  if (found == others_.end()) return 0;
  const std::uint32_t count = found->second.count;
  write(found->second, key, out);
  others_.erase(found);
  return count;
}

}  // namespace sonde::journal
