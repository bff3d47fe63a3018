#include "engine/export/span_columns.h"

#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "engine/model/id_index.h"
#include "engine/model/tree.h"

namespace sonde::exporting {

namespace {

bool is_ascii(std::string_view text) {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

// Length of the UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead >> 4) == 14            ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Longer than needed, a surrogate, or beyond the last code point.
  if ((lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && at(1) < 0x90) || (lead == 0xF4 && at(1) > 0x8F)) return 0;
  return length;
}

void end_text(Column& column) {
  if (column.text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::length_error(
        "more than 2 GiB of text in one column; ask for fewer spans with name= or last=");
  }
  column.offsets.push_back(static_cast<std::int32_t>(column.text.size()));
}

void add_id(Column& column, const base::Id& id) {
  char digits[32];
  base::write_hex(id, digits);
  column.text.append(digits, sizeof digits);
  end_text(column);
}

void add_parent(Column& column, const base::Id& id, std::size_t row, std::size_t rows) {
  if (id) return add_id(column, id);
  column.set_null(row, rows);
  end_text(column);
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
  end_text(column);
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
      end_text(names_);
    }
    return found->second;
  }

  Column& names_;
  std::unordered_map<std::string_view, std::int32_t> indices_;
  std::string_view last_ = {nullptr, 1};
  std::int32_t last_index_ = 0;
};

// Marks that came with the batch are counted; without any, the spans know how many they have.
std::vector<std::int64_t> count_marks(const model::Batch& batch) {
  std::vector<std::int64_t> counts(batch.spans.size());
  if (batch.marks.empty()) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = batch.spans[i].mark_id_count;
    return counts;
  }
  const model::IdIndex rows(batch.spans);
  for (const model::Mark& mark : batch.marks) {
    if (const std::uint32_t row = rows.find(mark.span_id); row != model::IdIndex::kNone)
      ++counts[row];
  }
  return counts;
}

}  // namespace

void Column::set_null(std::size_t row, std::size_t rows) {
  if (valid.empty()) valid.assign((rows + 7) / 8, 0xFF);
  valid[row / 8] = static_cast<std::uint8_t>(valid[row / 8] & ~(1u << (row % 8)));
  ++null_count;
}

void append_utf8(std::string& out, std::string_view text) {
  if (is_ascii(text)) {
    out += text;
    return;
  }
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

SpanColumns make_columns(const model::Batch& batch) {
  SpanColumns table;
  const std::size_t rows = table.rows = batch.spans.size();
  for (Column* text : {&table.id, &table.parent_id, &table.attrs}) {
    text->offsets.reserve(rows + 1);
    text->offsets.push_back(0);
  }
  for (Column* ids : {&table.id, &table.parent_id}) ids->text.reserve(rows * 32);
  table.attrs.text.reserve(rows * 2);
  for (Column* longs : {&table.index, &table.start_ns, &table.end_ns, &table.wall_us, &table.cpu_ns,
                        &table.gpu_ns, &table.memory_peak_bytes, &table.thread_id}) {
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
  table.mark_count.longs = count_marks(batch);
  return table;
}

}  // namespace sonde::exporting
