#include <cstdint>
#include <span>
#include <string>

#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/model/mark_index.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"
#include "engine/model/tree.h"
#include "engine/report/tree.h"

namespace sonde::report {

namespace {

using model::Kind;

class TreeJson {
 public:
  TreeJson(std::span<const model::Span> spans, std::span<const model::Mark> marks)
      : spans_(spans), tree_(model::build_tree(spans)), marks_(marks) {}

  std::string draw() {
    out_.raw("{\"roots\":[");
    nodes(tree_.roots, 0);
    out_.raw("],\"span_count\":");
    out_.number(std::uint64_t{spans_.size()});
    out_.raw("}\n");
    return out_.str();
  }

 private:
  void nodes(std::span<const std::uint32_t> list, int depth) {
    constexpr int kDeepest = 200;
    if (depth > kDeepest) return;
    for (const std::uint32_t i : list) {
      if (i != list.front()) out_.raw(',');
      node(i, depth);
    }
  }

  void node(std::uint32_t i, int depth) {
    const model::Span& span = spans_[i];
    bool first = true;
    model::for_each_field<model::kTree>([&]<typename One>(One) {
      out_.raw(first ? '{' : ',');
      first = false;
      out_.raw(One::key().substr(1));
      if constexpr (One::kKind == Kind::kWall) {
        model::write_optional(out_, model::wall_us(span));
      } else if constexpr (One::kKind == Kind::kMarks) {
        marks(marks_.of(span.id));
      } else if constexpr (One::kKind == Kind::kChildren) {
        out_.raw('[');
        nodes(tree_.children_of(i), depth + 1);
        out_.raw(']');
      } else {
        model::write_field<One>(out_, span);
      }
    });
    out_.raw('}');
  }

  void marks(std::span<const model::Mark* const> list) {
    out_.raw('[');
    for (const model::Mark* mark : list) {
      if (mark != list.front()) out_.raw(',');
      model::write_mark(out_, *mark);
    }
    out_.raw(']');
  }

  std::span<const model::Span> spans_;
  model::Tree tree_;
  model::MarkIndex marks_;
  base::JsonWriter out_;
};

}  // namespace

std::string tree_json(std::span<const model::Span> spans, std::span<const model::Mark> marks) {
  return TreeJson(spans, marks).draw();
}

}  // namespace sonde::report
