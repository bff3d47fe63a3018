// Reading the session back: text, dict, JSON, columns for a DataFrame, an Arrow stream.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "engine/analysis/summary.h"
#include "engine/export/arrow.h"
#include "engine/export/span_columns.h"
#include "engine/export/summary_columns.h"
#include "engine/model/mark_index.h"
#include "engine/model/select.h"
#include "engine/model/tree.h"
#include "engine/report/summary.h"
#include "engine/report/tree.h"
#include "engine/session/engine.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/python.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using model::kNone;
using session::MarksAs;
using Name = std::optional<std::string>;
using Last = std::optional<std::int64_t>;

// A reading of 100,000 spans takes and frees some 40 MB. As glibc is set up it would give them back
// to the system each time, and faulting them in again takes as long as everything else. It keeps
// twice as much as the largest block that was ever mapped and freed (mallopt(3), M_MMAP_THRESHOLD),
// so here is one, never touched, below the 32 MiB up to which that counts.
void let_malloc_keep_a_reading() {
  static const bool done = [] {
    void* volatile block = std::malloc(std::size_t{31} << 20);
    std::free(block);
    return true;
  }();
  static_cast<void>(done);
}

// Everything recorded so far, selected. Flushes first, without the GIL. `left_out`: how many older
// spans are held no more.
std::shared_ptr<model::Batch> read(const Name& name, const Last& last,
                                   MarksAs marks = MarksAs::kMarks,
                                   std::uint64_t* left_out = nullptr) {
  session::Engine& engine = session::Engine::instance();
  settle_hooks();
  let_malloc_keep_a_reading();
  {
    const nb::gil_scoped_release release;
    engine.flush();
  }
  auto batch = std::make_shared<model::Batch>();
  const std::uint64_t evicted = engine.read_trace(*batch, marks);
  if (left_out != nullptr) *left_out = evicted;
  if (name) batch->spans = model::select_name(batch->spans, *name);
  if (last) {
    // "The most recently closed": what is open has no place in that order.
    std::erase_if(batch->spans, [](const model::Span& span) { return span.open(); });
    batch->spans = model::select_last(batch->spans,
                                      static_cast<std::size_t>(std::max<std::int64_t>(0, *last)));
  }
  return batch;
}

std::int64_t wall_us(const model::Span& span) {
  return span.length_ns() == kNone ? kNone : span.length_ns() / 1000;
}

PyObject* text(std::string_view utf8) {
  PyObject* object =
      PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
  if (object != nullptr) return object;
  PyErr_Clear();
  return PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace");
}

PyObject* id_text(const base::Id& id) {
  if (!id) return Py_NewRef(Py_None);
  PyObject* object = PyUnicode_New(32, 127);
  if (object != nullptr) base::write_hex(id, static_cast<char*>(PyUnicode_DATA(object)));
  return object;
}

nb::object optional_int(std::int64_t value) {
  return value == kNone ? nb::none() : nb::steal(PyLong_FromLongLong(value));
}

nb::object mark_value(const model::Mark& mark) {
  switch (mark.type) {
    case model::ValueType::kFloat:
      return nb::steal(PyFloat_FromDouble(mark.real));
    case model::ValueType::kBool:
      return nb::bool_(mark.integer != 0);
    case model::ValueType::kInt:
      return nb::steal(mark.text.empty()
                           ? PyLong_FromLongLong(mark.integer)
                           : PyLong_FromString(std::string(mark.text).c_str(), nullptr, 10));
    case model::ValueType::kString:
      break;
  }
  return nb::steal(text(mark.text));
}

class DictBuilder {
 public:
  explicit DictBuilder(const model::Batch& batch)
      : batch_(batch),
        tree_(model::build_tree(batch.spans)),
        marks_(batch.marks),
        loads_(nb::module_::import_("json").attr("loads")) {}

  nb::dict build() {
    nb::list roots;
    for (const std::uint32_t root : tree_.roots) roots.append(node(root));
    nb::dict out;
    out["roots"] = roots;
    out["span_count"] = batch_.spans.size();
    return out;
  }

 private:
  nb::dict node(std::uint32_t i) {
    const model::Span& span = batch_.spans[i];
    nb::dict out;
    out["id"] = nb::steal(id_text(span.id));
    out["parent_id"] = nb::steal(id_text(span.parent_id));
    out["name"] = nb::steal(text(span.name));
    out["index"] = optional_int(span.index);
    out["start_ns"] = span.start_ns;
    out["end_ns"] = optional_int(span.end_ns);
    out["wall_us"] = optional_int(wall_us(span));
    out["cpu_ns"] = optional_int(span.cpu_ns);
    out["gpu_ns"] = optional_int(span.gpu_ns);
    out["memory_peak_bytes"] = optional_int(span.memory_peak_bytes);
    out["pid"] = span.pid;
    out["rank"] = span.rank;
    out["attrs"] = span.attrs.empty()
                       ? nb::object(nb::dict())
                       : loads_(nb::steal(text("{" + std::string(span.attrs) + "}")));
    nb::list marks;
    for (const model::Mark* mark : marks_.of(span.id)) {
      nb::dict entry;
      entry["name"] = nb::steal(text(mark->name));
      entry["value"] = mark_value(*mark);
      entry["kind"] = mark->summary ? "summary" : "point";
      marks.append(entry);
    }
    out["marks"] = marks;
    nb::list children;
    for (const std::uint32_t child : tree_.children_of(i)) children.append(node(child));
    out["children"] = children;
    return out;
  }

  const model::Batch& batch_;
  model::Tree tree_;
  model::MarkIndex marks_;
  nb::object loads_;
};

// -- columns of the DataFrame --

template <typename T>
nb::object column(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned,
                          [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// Integers; as floats with NaN where some are missing, which is what pandas makes of None.
template <typename Get>
nb::object int_column(const std::vector<model::Span>& spans, Get get) {
  std::vector<std::int64_t> values;
  values.reserve(spans.size());
  bool missing = false;
  for (const model::Span& span : spans) {
    values.push_back(get(span));
    missing = missing || values.back() == kNone;
  }
  if (!missing) return column(std::move(values));
  std::vector<double> reals;
  reals.reserve(values.size());
  for (const std::int64_t value : values)
    reals.push_back(value == kNone ? std::numeric_limits<double>::quiet_NaN()
                                   : static_cast<double>(value));
  return column(std::move(reals));
}

template <typename Get>
nb::object object_column(std::size_t count, Get get) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(count));
  if (list == nullptr) throw nb::python_error();
  nb::object owned = nb::steal(list);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* item = get(i);
    if (item == nullptr) throw nb::python_error();
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
  }
  return owned;
}

PyObject* text_at(const exporting::Column& column, std::size_t row) {
  const auto from = static_cast<std::size_t>(column.offsets[row]);
  const auto length = static_cast<std::size_t>(column.offsets[row + 1]) - from;
  return text({column.text.data() + from, length});
}

nb::dict columns(const Name& name, const Last& last) {
  const auto batch = read(name, last, MarksAs::kText);
  const exporting::SpanColumns texts = exporting::make_columns(*batch);
  const auto& spans = batch->spans;
  const std::vector<std::uint32_t> depths = model::find_depths(spans);
  std::unordered_map<const char*, nb::object> names;  // interned names share one str
  nb::dict out;
  out["id"] = object_column(spans.size(), [&](std::size_t i) { return id_text(spans[i].id); });
  // Neighbours mostly have the same parent: one str for all of them.
  Ref parent;
  out["parent_id"] = object_column(spans.size(), [&](std::size_t i) {
    if (!parent || spans[i].parent_id != spans[i - 1].parent_id) {
      parent = Ref(id_text(spans[i].parent_id));
    }
    return Py_XNewRef(parent.get());
  });
  out["name"] = object_column(spans.size(), [&](std::size_t i) {
    nb::object& known = names[spans[i].name.data()];
    if (!known.is_valid() || static_cast<std::size_t>(nb::len(known)) != spans[i].name.size())
      known = nb::steal(text(spans[i].name));
    return Py_NewRef(known.ptr());
  });
  out["index"] = int_column(spans, [](const model::Span& span) { return span.index; });
  out["wall_us"] = int_column(spans, wall_us);
  out["cpu_ns"] = int_column(spans, [](const model::Span& span) { return span.cpu_ns; });
  out["gpu_ns"] = int_column(spans, [](const model::Span& span) { return span.gpu_ns; });
  out["memory_peak_bytes"] =
      int_column(spans, [](const model::Span& span) { return span.memory_peak_bytes; });
  out["mark_count"] = column(texts.mark_count.longs);
  out["depth"] = column(std::vector<std::int64_t>(depths.begin(), depths.end()));
  out["start_ns"] = column(texts.start_ns.longs);
  const auto count = spans.size();
  out["attrs"] = object_column(count, [&](std::size_t i) { return text_at(texts.attrs, i); });
  out["marks"] = object_column(count, [&](std::size_t i) { return text_at(texts.marks, i); });
  return out;
}

// Takes over the stream.
nb::object stream_capsule(ArrowArrayStream* stream) {
  PyObject* capsule = PyCapsule_New(stream, "arrow_array_stream", [](PyObject* self) {
    auto* held = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(self, "arrow_array_stream"));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
  return nb::steal(capsule);
}

// An object with __arrow_c_stream__; each call hands out a fresh stream over the same table.
struct ArrowTable {
  std::shared_ptr<const model::Batch> batch;

  nb::object stream(nb::object /*requested_schema*/) const {
    auto* stream = new ArrowArrayStream;
    exporting::export_spans(batch, stream);
    return stream_capsule(stream);
  }
};

// What was recorded, added up by name: the numbers of `sonde trace --summary`, in every form.
struct SummaryTable {
  std::shared_ptr<const analysis::Summary> summary;

  nb::object stream(nb::object /*requested_schema*/) const {
    auto* stream = new ArrowArrayStream;
    exporting::export_table([held = summary] { return exporting::make_summary_table(*held); },
                            stream);
    return stream_capsule(stream);
  }
};

SummaryTable summarize(const Name& name, const Last& last) {
  std::uint64_t left_out = 0;
  // The summary looks for the name by itself; the last N are those of the name.
  const auto batch = read(last ? name : Name(), last, MarksAs::kCount, &left_out);
  analysis::Summarizer summarizer;
  summarizer.add(batch->spans);
  analysis::Summary summary = summarizer.finish(name.value_or(""));
  summary.left_out = left_out;
  return {std::make_shared<const analysis::Summary>(std::move(summary))};
}

// For a terminal or a page: what no encoding can print (a lone surrogate) is replaced.
nb::object printable(const std::string& utf8) {
  return nb::steal(
      PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

nb::object json_text(std::string json) {
  while (json.ends_with('\n')) json.pop_back();
  return nb::steal(text(json));
}

}  // namespace

void add_trace(nb::module_& module) {
  const auto name = nb::arg("name").none();
  const auto last = nb::arg("last").none();
  module.def(
      "trace_text",
      [](const Name& wanted, const Last& count) {
        const auto batch = read(wanted, count);
        return printable(report::tree_text(batch->spans, batch->marks, {.sibling_limit = 0}));
      },
      name, last, "The tree as text.");
  module.def(
      "trace_dict",
      [](const Name& wanted, const Last& count) {
        return DictBuilder(*read(wanted, count)).build();
      },
      name, last, "The tree as nested dicts.");
  module.def(
      "trace_json",
      [](const Name& wanted, const Last& count) {
        const auto batch = read(wanted, count);
        return json_text(report::tree_json(batch->spans, batch->marks));
      },
      name, last, "The tree as JSON.");
  module.def("trace_columns", &columns, name, last,
             "One row per span: the columns of the DataFrame.");
  nb::class_<ArrowTable>(module, "ArrowTable",
                         "Spans as an Arrow table, for anything that reads the Arrow C stream.")
      .def("__arrow_c_stream__", &ArrowTable::stream, nb::arg("requested_schema") = nb::none())
      .def("__len__", [](const ArrowTable& self) { return self.batch->spans.size(); });
  module.def(
      "trace_arrow",
      [](const Name& wanted, const Last& count) {
        return ArrowTable{read(wanted, count, MarksAs::kText)};
      },
      name, last, "One row per span, as Arrow.");
  nb::class_<SummaryTable>(module, "SummaryTable",
                           "Spans added up by name, as text, page, JSON or Arrow.")
      .def("__arrow_c_stream__", &SummaryTable::stream, nb::arg("requested_schema") = nb::none())
      .def("text",
           [](const SummaryTable& self) { return printable(report::summary_text(*self.summary)); })
      .def("html",
           [](const SummaryTable& self) { return printable(report::summary_html(*self.summary)); })
      .def("json",
           [](const SummaryTable& self) { return json_text(report::summary_json(*self.summary)); });
  module.def("trace_summary", &summarize, name, last, "Added up by name.");
}

}  // namespace sonde::native
