#include "engine/export/span_columns.h"

#include <optional>
#include <span>
#include <unordered_map>

#include "engine/base/json_writer.h"
#include "engine/model/id_index.h"
#include "engine/model/json_values.h"
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

// The marks of each row, in the order they came.
class MarkRows {
 public:
  explicit MarkRows(const model::Batch& batch) : firsts_(batch.spans.size() + 1) {
    const std::vector<std::uint32_t> rows = find_rows(batch);
    for (const std::uint32_t row : rows) {
      if (row != model::IdIndex::kNone) ++firsts_[row + 1];
    }
    for (std::size_t row = 1; row < firsts_.size(); ++row) firsts_[row] += firsts_[row - 1];
    ordered_.resize(firsts_.back());
    std::vector<std::uint32_t> next(firsts_.begin(), firsts_.end() - 1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] != model::IdIndex::kNone) ordered_[next[rows[i]]++] = &batch.marks[i];
    }
  }

  std::span<const model::Mark* const> of(std::size_t row) const {
    return {ordered_.data() + firsts_[row], firsts_[row + 1] - firsts_[row]};
  }

 private:
  // Mostly they lie in the order of their spans: the next one is where the last one was, or behind.
  static std::vector<std::uint32_t> find_rows(const model::Batch& batch) {
    std::vector<std::uint32_t> rows;
    rows.reserve(batch.marks.size());
    std::optional<model::IdIndex> index;
    std::uint32_t row = 0;
    const auto is_at = [&](std::uint32_t at, const base::Id& id) {
      return at < batch.spans.size() && batch.spans[at].id == id;
    };
    for (const model::Mark& mark : batch.marks) {
      if (is_at(row + 1, mark.span_id)) {
        ++row;
      } else if (!is_at(row, mark.span_id)) {
        if (!index) index.emplace(batch.spans);
        const std::uint32_t found = index->find(mark.span_id);
        rows.push_back(found);
        if (found != model::IdIndex::kNone) row = found;
        continue;
      }
      rows.push_back(row);
    }
    return rows;
  }

  std::vector<std::uint32_t> firsts_;  // into ordered_, by row
  std::vector<const model::Mark*> ordered_;
};

void write_marks(base::JsonWriter& out, std::span<const model::Mark* const> marks) {
  for (const model::Mark* mark : marks) {
    out.raw(mark == marks.front() ? "[{\"name\":" : ",{\"name\":");
    out.string(mark->name);
    out.raw(",\"value\":");
    model::write_value(out, *mark);
    out.raw(mark->summary ? ",\"kind\":\"summary\"}" : ",\"kind\":\"point\"}");
  }
  out.raw(marks.empty() ? "[]" : "]");
}

// Marks that came with the batch are counted and written down; without any, the spans know how many
// they have.
void add_marks(SpanColumns& table, const model::Batch& batch) {
  const MarkRows marks(batch);
  constexpr std::size_t kUsualBytes = 48;
  table.marks.text.reserve(2 * table.rows + kUsualBytes * batch.marks.size());
  base::JsonWriter json;
  for (std::size_t row = 0; row < table.rows; ++row) {
    const auto own = marks.of(row);
    table.mark_count.longs.push_back(batch.marks.empty()
                                         ? std::int64_t{batch.spans[row].mark_id_count}
                                         : static_cast<std::int64_t>(own.size()));
    json.clear();
    write_marks(json, own);
    table.marks.text += json.view();  // the writer leaves nothing that is not UTF-8
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
