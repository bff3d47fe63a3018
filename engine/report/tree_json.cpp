#include "engine/base/json_writer.h"
#include "engine/model/mark_index.h"
#include "engine/model/tree.h"
#include "engine/report/json_values.h"
#include "engine/report/tree.h"

namespace sonde::report {

namespace {

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
    out_.raw("{\"id\":");
    out_.hex(span.id);
    key("parent_id");
    write_optional(out_, span.parent_id);
    key("name");
    out_.string(span.name);
    optional("index", span.index);
    optional("start_ns", span.start_ns);
    optional("end_ns", span.end_ns);
    optional("wall_us", span.length_ns() == model::kNone ? model::kNone : span.length_ns() / 1000);
    optional("cpu_ns", span.cpu_ns);
    optional("gpu_ns", span.gpu_ns);
    optional("memory_peak_bytes", span.memory_peak_bytes);
    optional("pid", span.pid);
    optional("rank", span.rank);
    key("attrs");
    out_.raw('{');
    out_.raw(span.attrs);
    out_.raw("},\"marks\":[");
    for (const model::Mark* mark : marks_.of(span.id))
      this->mark(*mark, mark == marks_.of(span.id).front());
    out_.raw("],\"children\":[");
    nodes(tree_.children_of(i), depth + 1);
    out_.raw("]}");
  }

  void mark(const model::Mark& mark, bool first) {
    out_.raw(first ? "{\"name\":" : ",{\"name\":");
    out_.string(mark.name);
    key("value");
    write_value(out_, mark);
    key("kind");
    out_.raw(mark.summary ? "\"summary\"}" : "\"point\"}");
  }

  void key(std::string_view name) {
    out_.raw(",\"");
    out_.raw(name);
    out_.raw("\":");
  }
  void optional(std::string_view name, std::int64_t value) {
    key(name);
    write_optional(out_, value);
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
