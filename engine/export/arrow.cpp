#include "engine/export/arrow.h"

#include <array>
#include <cerrno>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "engine/export/span_columns.h"

namespace sonde::exporting {

namespace {

enum class Type { kText, kLong, kUnsignedLong, kShort, kDictionary };

struct Field {
  const char* name;
  Type type;
  bool nullable;
  Column SpanColumns::*column;
};

constexpr std::array kFields = {
    Field{"id", Type::kText, false, &SpanColumns::id},
    Field{"parent_id", Type::kText, true, &SpanColumns::parent_id},
    Field{"name", Type::kDictionary, false, &SpanColumns::name},
    Field{"index", Type::kLong, true, &SpanColumns::index},
    Field{"start_ns", Type::kLong, false, &SpanColumns::start_ns},
    Field{"end_ns", Type::kLong, true, &SpanColumns::end_ns},
    Field{"wall_us", Type::kLong, true, &SpanColumns::wall_us},
    Field{"cpu_ns", Type::kLong, true, &SpanColumns::cpu_ns},
    Field{"gpu_ns", Type::kLong, true, &SpanColumns::gpu_ns},
    Field{"memory_peak_bytes", Type::kLong, true, &SpanColumns::memory_peak_bytes},
    Field{"thread_id", Type::kUnsignedLong, false, &SpanColumns::thread_id},
    Field{"pid", Type::kShort, false, &SpanColumns::pid},
    Field{"rank", Type::kShort, false, &SpanColumns::rank},
    Field{"mark_count", Type::kLong, false, &SpanColumns::mark_count},
    Field{"depth", Type::kShort, false, &SpanColumns::depth},
    Field{"attrs", Type::kText, false, &SpanColumns::attrs},
};
constexpr Field kNames = {"", Type::kText, false, &SpanColumns::names};

const char* format_of(Type type) {
  switch (type) {
    case Type::kText:
      return "u";
    case Type::kUnsignedLong:
      return "L";
    case Type::kLong:
      return "l";
    case Type::kShort:
    case Type::kDictionary:  // the type of its indices
      return "i";
  }
  return "n";
}

// What a struct handed out keeps alive. Consumers may move a child out of its parent and release
// the two in any order, so every node owns itself, and a parent releases only the children that are
// still its own.
template <typename Node>
struct Owner {
  std::array<Node, kFields.size()> children = {};
  std::array<Node*, kFields.size()> child_pointers = {};
  Node dictionary = {};
  std::shared_ptr<const SpanColumns> columns;  // arrays only
  const void* buffers[3] = {};                 // arrays only
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
void own_children(Node* node, Owner<Node>& owner) {
  for (std::size_t i = 0; i < kFields.size(); ++i) owner.child_pointers[i] = &owner.children[i];
  node->children = owner.child_pointers.data();
  node->n_children = static_cast<std::int64_t>(kFields.size());
}

void make_schema(const Field& field, ArrowSchema* out) {
  constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE
  Owner<ArrowSchema>& owner = own(out);
  out->format = format_of(field.type);
  out->name = field.name;
  out->flags = field.nullable ? kNullable : 0;
  if (field.type != Type::kDictionary) return;
  out->dictionary = &owner.dictionary;
  make_schema(kNames, out->dictionary);
}

void make_table_schema(ArrowSchema* out) {
  Owner<ArrowSchema>& owner = own(out);
  out->format = "+s";
  out->name = "";
  own_children(out, owner);
  for (std::size_t i = 0; i < kFields.size(); ++i) make_schema(kFields[i], out->children[i]);
}

// Some consumers refuse a null pointer where zero bytes are meant.
template <typename Values>
const void* address(const Values& values) {
  static constexpr std::uint64_t kNothing = 0;
  return values.empty() ? static_cast<const void*>(&kNothing) : values.data();
}

void make_array(const Field& field, std::size_t rows,
                const std::shared_ptr<const SpanColumns>& columns, ArrowArray* out) {
  Owner<ArrowArray>& owner = own(out);
  const Column& column = *columns.*field.column;
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
    case Type::kDictionary:
      owner.buffers[1] = address(column.shorts);
      out->dictionary = &owner.dictionary;
      make_array(kNames, columns->names.offsets.size() - 1, columns, out->dictionary);
      break;
  }
}

void make_table(const std::shared_ptr<const SpanColumns>& columns, ArrowArray* out) {
  Owner<ArrowArray>& owner = own(out);
  out->length = static_cast<std::int64_t>(columns->rows);
  out->buffers = owner.buffers;  // one, the validity of the rows: all of them are
  out->n_buffers = 1;
  own_children(out, owner);
  for (std::size_t i = 0; i < kFields.size(); ++i)
    make_array(kFields[i], columns->rows, columns, out->children[i]);
}

struct Stream {
  std::shared_ptr<const model::Batch> batch;  // gone once the table was taken
  std::string error;
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
  return guarded(*static_cast<Stream*>(self->private_data), out, [&] { make_table_schema(out); });
}

int get_next(ArrowArrayStream* self, ArrowArray* out) {
  auto& stream = *static_cast<Stream*>(self->private_data);
  return guarded(stream, out, [&] {
    if (!stream.batch) return;  // a released array is the end of the stream
    make_table(std::make_shared<const SpanColumns>(make_columns(*stream.batch)), out);
    stream.batch.reset();
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

void export_spans(std::shared_ptr<const model::Batch> spans_and_marks, ArrowArrayStream* out) {
  out->private_data = new Stream{std::move(spans_and_marks), {}};
  out->get_schema = get_schema;
  out->get_next = get_next;
  out->get_last_error = get_last_error;
  out->release = release_stream;
}

}  // namespace sonde::exporting
