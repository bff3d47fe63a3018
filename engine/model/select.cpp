#include "engine/model/select.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/trace.h"
#include "engine/model/tree.h"

namespace sonde::model {

std::vector<Span> select_name(std::span<const Span> spans, std::string_view name) {
  const Tree tree = build_tree(spans);
  std::vector<bool> wanted(spans.size(), false);
  std::vector<std::uint32_t> below;
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (spans[i].name != name || wanted[i]) continue;
    below.assign(1, i);
    while (!below.empty()) {
      const std::uint32_t at = below.back();
      below.pop_back();
      if (wanted[at]) continue;
      wanted[at] = true;
      const auto children = tree.children_of(at);
      below.insert(below.end(), children.begin(), children.end());
    }
  }
  std::vector<Span> selected;
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (wanted[i]) selected.push_back(spans[i]);
  }
  return selected;
}

std::vector<Span> select_last(std::span<const Span> spans, std::size_t count) {
  const auto end_of = [](const Span& span) {
    return span.open() ? std::numeric_limits<std::int64_t>::max() : span.end_ns;
  };
  std::vector<Span> selected(spans.begin(), spans.end());
  std::stable_sort(selected.begin(), selected.end(),
                   [&](const Span& a, const Span& b) { return end_of(a) > end_of(b); });
  if (selected.size() > count) selected.resize(count);
  return selected;
}

}  // namespace sonde::model
