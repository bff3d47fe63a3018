#include "engine/export/span_columns.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/id.h"
#include "engine/export/columns.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"
#include "engine/model/tree.h"

namespace sonde::exporting {

namespace {

using model::Kind;

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
    // Interned names have one address, and neighbours often have the same name.
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

template <typename One>
constexpr Type type_of() {
  switch (One::kKind) {
    case Kind::kId:
    case Kind::kParent:
    case Kind::kMembers:
    case Kind::kMarks:
      return Type::kText;
    case Kind::kName:
      return Type::kDictionary;
    case Kind::kDepth:
      return Type::kShort;
    case Kind::kNumber:
      break;
    default:
      return Type::kLong;
  }
  if constexpr (One::kKind == Kind::kNumber) {
    using Number = std::remove_cvref_t<decltype(One::of(std::declval<const model::Span&>()))>;
    if (std::same_as<Number, std::uint64_t>) return Type::kUnsignedLong;
    if (std::same_as<Number, std::int32_t>) return Type::kShort;
  }
  return Type::kLong;
}

constexpr bool is_nullable(Kind kind) {
  return kind == Kind::kParent || kind == Kind::kEnd || kind == Kind::kOptional ||
         kind == Kind::kWall;
}

// Room for every row; a text column begins with the offset of its first.
template <typename One>
void prepare(Column& column, std::size_t rows) {
  constexpr std::size_t kIdBytes = 32, kEmptyBytes = 2;  // {} or []
  if constexpr (type_of<One>() == Type::kText) {
    column.offsets.reserve(rows + 1);
    column.offsets.push_back(0);
    constexpr bool kIds = One::kKind == Kind::kId || One::kKind == Kind::kParent;
    column.text.reserve(rows * (kIds ? kIdBytes : kEmptyBytes));
  } else if constexpr (type_of<One>() == Type::kShort || type_of<One>() == Type::kDictionary) {
    column.shorts.reserve(rows);
  } else {
    column.longs.reserve(rows);
  }
}

// The marks as text, where the batch has it.
void add_marks(Column& column, const model::Span& span, const model::Batch& batch) {
  const bool text = span.mark_id_count != 0 && span.first_mark_id < batch.mark_lists.size();
  column.text += text ? batch.mark_lists[span.first_mark_id] : std::string_view("[]");
  column.end_text();
}

class Filling {
 public:
  Filling(const model::Batch& batch, SpanColumns& table)
      : batch_(batch),
        rows_(batch.spans.size()),
        names_(table.names),
        depths_(model::find_depths(batch.spans)) {}

  template <typename One>
  void add(Column& column, std::size_t row) {
    const model::Span& span = batch_.spans[row];
    if constexpr (One::kKind == Kind::kId) {
      add_id(column, One::of(span));
    } else if constexpr (One::kKind == Kind::kParent) {
      add_parent(column, One::of(span), row, rows_);
    } else if constexpr (One::kKind == Kind::kName) {
      column.shorts.push_back(names_.index_of(One::of(span)));
    } else if constexpr (One::kKind == Kind::kMembers) {
      add_attrs(column, One::of(span));
    } else if constexpr (One::kKind == Kind::kMarks) {
      add_marks(column, span, batch_);
    } else if constexpr (One::kKind == Kind::kMarkCount) {
      column.longs.push_back(span.mark_id_count);  // as many as the span says it has
    } else if constexpr (One::kKind == Kind::kDepth) {
      column.shorts.push_back(static_cast<std::int32_t>(depths_[row]));
    } else if constexpr (One::kKind == Kind::kWall) {
      add_optional(column, model::wall_us(span), row, rows_);
    } else if constexpr (is_nullable(One::kKind)) {
      add_optional(column, One::of(span), row, rows_);
    } else if constexpr (type_of<One>() == Type::kShort) {
      column.shorts.push_back(One::of(span));
    } else {
      column.longs.push_back(static_cast<std::int64_t>(One::of(span)));
    }
  }

 private:
  const model::Batch& batch_;
  std::size_t rows_;
  NameIndex names_;
  std::vector<std::uint32_t> depths_;
};

}  // namespace

SpanColumns make_columns(const model::Batch& batch) {
  SpanColumns table;
  table.rows = batch.spans.size();
  Filling filling(batch, table);
  Column* column = table.columns.data();
  model::for_each_field<model::kColumns>([&]<typename One>(One) {
    prepare<One>(*column, table.rows);
    if constexpr (One::kKind == Kind::kMarks) {
      constexpr std::size_t kUsualBytes = 48;
      column->text.reserve(2 * table.rows + kUsualBytes * batch.mark_lists.size());
    }
    ++column;
  });
  for (std::size_t row = 0; row < table.rows; ++row) {
    column = table.columns.data();
    model::for_each_field<model::kColumns>(
        [&]<typename One>(One) { filling.add<One>(*column++, row); });
  }
  return table;
}

ColumnTable as_table(std::shared_ptr<const SpanColumns> columns) {
  ColumnTable table;
  table.rows = columns->rows;
  const Column* column = columns->columns.data();
  model::for_each_field<model::kColumns>([&]<typename One>(One) {
    const Column* dictionary = One::kKind == Kind::kName ? &columns->names : nullptr;
    table.fields.push_back(
        {One::kName.data(), type_of<One>(), is_nullable(One::kKind), column++, dictionary});
  });
  table.owner = std::move(columns);
  return table;
}

}  // namespace sonde::exporting
