#include "engine/export/arrow.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/export/columns.h"
#include "engine/export/span_columns.h"
#include "engine/model/trace.h"

namespace sonde::exporting {

namespace {

const char* format_of(Type type) {
  switch (type) {
    case Type::kText:
      return "u";
    case Type::kUnsignedLong:
      return "L";
    case Type::kLong:
      return "l";
    case Type::kReal:
      return "g";
    case Type::kShort:
    case Type::kDictionary:  // the type of its indices
      return "i";
  }
  return "n";
}

// What an exported struct keeps alive. Consumers may move a child out of its parent and release the
// two in any order, so every node owns itself, and a parent releases only the children that were
// not moved.
template <typename Node>
struct Owner {
  std::vector<Node> children;
  std::vector<Node*> child_pointers;
  Node dictionary = {};
  std::shared_ptr<const void> columns;  // arrays only
  const void* buffers[3] = {};          // arrays only
};

template <typename Node>
void release(Node* node) {
  auto* owner = static_cast<Owner<Node>*>(node->private_data);
  for (std::int64_t i = 0; i < node->n_children; ++i) {
    if (node->children[i]->release != nullptr) node->children[i]->release(node->children[i]);
  }
  if (node->dictionary != nullptr && node->dictionary->release != nullptr)
    node->dictionary->release(node->dictionary);
  node->release = nullptr;
  delete owner;
}

template <typename Node>
Owner<Node>& own(Node* node) {
  auto* owner = new Owner<Node>;
  *node = {};
  node->private_data = owner;
  node->release = release<Node>;
  return *owner;
}

template <typename Node>
void own_children(Node* node, Owner<Node>& owner, std::size_t count) {
  owner.children.resize(count);
  for (Node& child : owner.children) owner.child_pointers.push_back(&child);
  node->children = owner.child_pointers.data();
  node->n_children = static_cast<std::int64_t>(count);
}

void make_schema(const Field& field, ArrowSchema* out) {
  constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE
  Owner<ArrowSchema>& owner = own(out);
  out->format = format_of(field.type);
  out->name = field.name;
  out->flags = field.nullable ? kNullable : 0;
  if (field.type != Type::kDictionary) return;
  out->dictionary = &owner.dictionary;
  make_schema({"", Type::kText}, out->dictionary);
}

void make_table_schema(const ColumnTable& table, ArrowSchema* out) {
  Owner<ArrowSchema>& owner = own(out);
  out->format = "+s";
  out->name = "";
  own_children(out, owner, table.fields.size());
  for (std::size_t i = 0; i < table.fields.size(); ++i)
    make_schema(table.fields[i], out->children[i]);
}

// Some consumers refuse a null pointer where zero bytes are meant.
template <typename Values>
const void* address(const Values& values) {
  static constexpr std::uint64_t kNothing = 0;
  return values.empty() ? static_cast<const void*>(&kNothing) : values.data();
}

void make_array(const Field& field, std::size_t rows, const std::shared_ptr<const void>& columns,
                ArrowArray* out) {
  Owner<ArrowArray>& owner = own(out);
  const Column& column = *field.column;
  owner.columns = columns;
  out->length = static_cast<std::int64_t>(rows);
  out->null_count = column.null_count;
  out->buffers = owner.buffers;
  out->n_buffers = 2;
  owner.buffers[0] = column.null_count != 0 ? column.valid.data() : nullptr;
  switch (field.type) {
    case Type::kText:
      out->n_buffers = 3;
      owner.buffers[1] = address(column.offsets);
      owner.buffers[2] = address(column.text);
      break;
    case Type::kLong:
    case Type::kUnsignedLong:
      owner.buffers[1] = address(column.longs);
      break;
    case Type::kShort:
      owner.buffers[1] = address(column.shorts);
      break;
    case Type::kReal:
      owner.buffers[1] = address(column.reals);
      break;
    case Type::kDictionary:
      owner.buffers[1] = address(column.shorts);
      out->dictionary = &owner.dictionary;
      make_array({"", Type::kText, false, field.dictionary}, field.dictionary->offsets.size() - 1,
                 columns, out->dictionary);
      break;
  }
}

void make_table(const ColumnTable& table, ArrowArray* out) {
  Owner<ArrowArray>& owner = own(out);
  out->length = static_cast<std::int64_t>(table.rows);
  out->buffers = owner.buffers;  // one, the validity of the rows: all of them are
  out->n_buffers = 1;
  own_children(out, owner, table.fields.size());
  for (std::size_t i = 0; i < table.fields.size(); ++i)
    make_array(table.fields[i], table.rows, table.owner, out->children[i]);
}

struct Stream {
  MakeTable make;     // gone once it was called
  ColumnTable table;  // its columns are gone once they were taken
  bool taken = false;
  std::string error;

  const ColumnTable& look() {
    if (make) {
      table = make();
      make = nullptr;
    }
    return table;
  }
};

// Runs `make` and turns what it throws into an errno. What was half made is released.
template <typename Node, typename Make>
int guarded(Stream& stream, Node* out, Make make) {
  *out = {};
  int code = 0;
  try {
    make();
    return 0;
  } catch (const std::length_error& error) {
    stream.error = error.what();
    code = EOVERFLOW;
  } catch (const std::bad_alloc&) {
    stream.error = "no memory";
    code = ENOMEM;
  }
  if (out->release != nullptr) out->release(out);
  return code;
}

int get_schema(ArrowArrayStream* self, ArrowSchema* out) {
  auto& stream = *static_cast<Stream*>(self->private_data);
  return guarded(stream, out, [&] { make_table_schema(stream.look(), out); });
}

int get_next(ArrowArrayStream* self, ArrowArray* out) {
  auto& stream = *static_cast<Stream*>(self->private_data);
  return guarded(stream, out, [&] {
    if (stream.taken) return;  // a released array is the end of the stream
    make_table(stream.look(), out);
    stream.table.owner.reset();
    stream.taken = true;
  });
}

const char* get_last_error(ArrowArrayStream* self) {
  const auto& stream = *static_cast<Stream*>(self->private_data);
  return stream.error.empty() ? nullptr : stream.error.c_str();
}

void release_stream(ArrowArrayStream* self) {
  delete static_cast<Stream*>(self->private_data);
  self->release = nullptr;
}

}  // namespace

void export_table(MakeTable make, ArrowArrayStream* out) {
  out->private_data = new Stream{std::move(make), {}, false, {}};
  out->get_schema = get_schema;
  out->get_next = get_next;
  out->get_last_error = get_last_error;
  out->release = release_stream;
}

void export_spans(std::shared_ptr<const model::Batch> spans_and_marks, ArrowArrayStream* out) {
  export_table(
      [batch = std::move(spans_and_marks)] {
        return as_table(std::make_shared<const SpanColumns>(make_columns(*batch)));
      },
      out);
}

}  // namespace sonde::exporting
