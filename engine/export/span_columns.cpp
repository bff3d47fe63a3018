#include "engine/export/span_columns.h"

#include <unordered_map>

#include "engine/model/tree.h"

namespace sonde::exporting {

namespace {

void add_id(Column& column, const base::Id& id) {
  char digits[32];
  base::write_hex(id, digits);
  column.text.append(digits, sizeof digits);
  column.end_text();
}

void add_parent(Column& column, const base::Id& id, std::size_t row, std::size_t rows) {
  if (id) return add_id(column, id);
  column.set_null(row, rows);
  column.end_text();
}

void add_optional(Column& column, std::int64_t value, std::size_t row, std::size_t rows) {
  const bool none = value == model::kNone;
  column.longs.push_back(none ? 0 : value);
  if (none) column.set_null(row, rows);
}

void add_attrs(Column& column, std::string_view members) {
  if (members.empty()) {
    column.text += "{}";
  } else {
    column.text += '{';
    append_utf8(column.text, members);
    column.text += '}';
  }
  column.end_text();
}

class NameIndex {
 public:
  explicit NameIndex(Column& names) : names_(names) { names_.offsets.push_back(0); }

  std::int32_t index_of(std::string_view name) {
    // Interned names come at the same address; neighbours are often called the same.
    if (name.data() == last_.data() && name.size() == last_.size()) return last_index_;
    last_ = name;
    return last_index_ = look_up(name);
  }

 private:
  std::int32_t look_up(std::string_view name) {
    const auto [found, fresh] =
        indices_.try_emplace(name, static_cast<std::int32_t>(indices_.size()));
    if (fresh) {
      append_utf8(names_.text, name);
      names_.end_text();
    }
    return found->second;
  }

  Column& names_;
  std::unordered_map<std::string_view, std::int32_t> indices_;
  std::string_view last_ = {nullptr, 1};
  std::int32_t last_index_ = 0;
};

// As many as the spans say they have; their text where the batch has it.
void add_marks(SpanColumns& table, const model::Batch& batch) {
  constexpr std::size_t kUsualBytes = 48;
  table.marks.text.reserve(2 * table.rows + kUsualBytes * batch.mark_lists.size());
  for (const model::Span& span : batch.spans) {
    table.mark_count.longs.push_back(span.mark_id_count);
    const bool text = span.mark_id_count != 0 && span.first_mark_id < batch.mark_lists.size();
    table.marks.text += text ? batch.mark_lists[span.first_mark_id] : std::string_view("[]");
    table.marks.end_text();
  }
}

}  // namespace

SpanColumns make_columns(const model::Batch& batch) {
  SpanColumns table;
  const std::size_t rows = table.rows = batch.spans.size();
  for (Column* text : {&table.id, &table.parent_id, &table.attrs, &table.marks}) {
    text->offsets.reserve(rows + 1);
    text->offsets.push_back(0);
  }
  for (Column* ids : {&table.id, &table.parent_id}) ids->text.reserve(rows * 32);
  table.attrs.text.reserve(rows * 2);
  for (Column* longs :
       {&table.index, &table.start_ns, &table.end_ns, &table.wall_us, &table.cpu_ns, &table.gpu_ns,
        &table.memory_peak_bytes, &table.thread_id, &table.mark_count}) {
    longs->longs.reserve(rows);
  }
  for (Column* shorts : {&table.name, &table.pid, &table.rank, &table.depth})
    shorts->shorts.reserve(rows);

  NameIndex names(table.names);
  const std::vector<std::uint32_t> depths = model::find_depths(batch.spans);
  for (std::size_t row = 0; row < rows; ++row) {
    const model::Span& span = batch.spans[row];
    add_id(table.id, span.id);
    add_parent(table.parent_id, span.parent_id, row, rows);
    table.name.shorts.push_back(names.index_of(span.name));
    add_optional(table.index, span.index, row, rows);
    table.start_ns.longs.push_back(span.start_ns);
    add_optional(table.end_ns, span.end_ns, row, rows);
    add_optional(table.wall_us,
                 span.length_ns() == model::kNone ? model::kNone : span.length_ns() / 1000, row,
                 rows);
    add_optional(table.cpu_ns, span.cpu_ns, row, rows);
    add_optional(table.gpu_ns, span.gpu_ns, row, rows);
    add_optional(table.memory_peak_bytes, span.memory_peak_bytes, row, rows);
    table.thread_id.longs.push_back(static_cast<std::int64_t>(span.thread_id));
    table.pid.shorts.push_back(span.pid);
    table.rank.shorts.push_back(span.rank);
    table.depth.shorts.push_back(static_cast<std::int32_t>(depths[row]));
    add_attrs(table.attrs, span.attrs);
  }
  add_marks(table, batch);
  return table;
}

ColumnTable as_table(std::shared_ptr<const SpanColumns> columns) {
  const SpanColumns& all = *columns;
  ColumnTable table;
  table.rows = all.rows;
  table.fields = {
      {"id", Type::kText, false, &all.id},
      {"parent_id", Type::kText, true, &all.parent_id},
      {"name", Type::kDictionary, false, &all.name, &all.names},
      {"index", Type::kLong, true, &all.index},
      {"start_ns", Type::kLong, false, &all.start_ns},
      {"end_ns", Type::kLong, true, &all.end_ns},
      {"wall_us", Type::kLong, true, &all.wall_us},
      {"cpu_ns", Type::kLong, true, &all.cpu_ns},
      {"gpu_ns", Type::kLong, true, &all.gpu_ns},
      {"memory_peak_bytes", Type::kLong, true, &all.memory_peak_bytes},
      {"thread_id", Type::kUnsignedLong, false, &all.thread_id},
      {"pid", Type::kShort, false, &all.pid},
      {"rank", Type::kShort, false, &all.rank},
      {"mark_count", Type::kLong, false, &all.mark_count},
      {"depth", Type::kShort, false, &all.depth},
      {"attrs", Type::kText, false, &all.attrs},
      {"marks", Type::kText, false, &all.marks},
  };
  table.owner = std::move(columns);
  return table;
}

}  // namespace sonde::exporting
