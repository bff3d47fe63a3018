// Reading the session back: text, dict, JSON, columns for a DataFrame, an Arrow stream.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/analysis/summary.h"
#include "engine/analysis/summary_fields.h"
#include "engine/export/arrow.h"
#include "engine/export/span_columns.h"
#include "engine/export/summary_columns.h"
#include "engine/model/select.h"
#include "engine/model/span_fields.h"
#include "engine/report/summary.h"
#include "engine/report/tree.h"
#include "engine/session/engine.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/trace_forms.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using session::MarksAs;
using Name = std::optional<std::string>;
using Last = std::optional<std::int64_t>;

// A reading of 100,000 spans allocates and frees some 40 MB. By default glibc gives them back to
// the system each time, and faulting them in again takes as long as everything else. glibc keeps up
// to twice the size of the largest mapped block that was freed, if that was below 32 MiB
// (mallopt(3), M_MMAP_THRESHOLD), so this frees such a block, which is never touched.
void let_malloc_keep_a_reading() {
  static const bool done = [] {
    void* volatile block = std::malloc(std::size_t{31} << 20);
    std::free(block);
    return true;
  }();
  static_cast<void>(done);
}

// The selected part of everything recorded so far. Flushes first, without the GIL. `left_out`: how
// many older spans are no longer in memory.
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
    // The last spans are those that closed most recently, so open ones are not among them.
    std::erase_if(batch->spans, [](const model::Span& span) { return span.open(); });
    batch->spans = model::select_last(batch->spans,
                                      static_cast<std::size_t>(std::max<std::int64_t>(0, *last)));
  }
  return batch;
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

// The spans added up by name, with the numbers of `sonde trace --summary`, in every form.
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
  // The summary selects the name itself, unless the last N spans of that name are wanted.
  const auto batch = read(last ? name : Name(), last, MarksAs::kCount, &left_out);
  analysis::Summarizer summarizer;
  summarizer.add(batch->spans);
  analysis::Summary summary = summarizer.finish(name.value_or(""));
  summary.left_out = left_out;
  return {std::make_shared<const analysis::Summary>(std::move(summary))};
}

// Text for a terminal or a page: lone surrogates, which cannot be encoded, are replaced.
nb::object printable(const std::string& utf8) { return nb::steal(str_of(utf8, "replace")); }

nb::object json_text(std::string json) {
  while (json.ends_with('\n')) json.pop_back();
  return nb::steal(new_text(json));
}

// The names of the columns, so that Python repeats none of them.
void add_columns(nb::module_& trace) {
  nb::list frame, summary, optional;
  model::for_each_field<model::kFrame>(
      [&]<typename One>(One) { frame.append(nb::str(One::kName.data(), One::kName.size())); });
  for (const exporting::Field& field : exporting::make_summary_table({}).fields)
    summary.append(field.name);
  for (const analysis::SummaryField& field : analysis::kSummaryFields) {
    if (field.optional) optional.append(field.name);
  }
  optional.append(analysis::kShareField);
  trace.attr("COLUMNS") = nb::tuple(frame);
  trace.attr("SUMMARY_COLUMNS") = nb::tuple(summary);
  trace.attr("OPTIONAL_SUMMARY_COLUMNS") = nb::tuple(optional);
}

}  // namespace

void add_trace(nb::module_& trace) {
  add_columns(trace);
  const auto name = nb::arg("name").none();
  const auto last = nb::arg("last").none();
  trace.def(
      "as_text",
      [](const Name& wanted, const Last& count) {
        const auto batch = read(wanted, count);
        return printable(report::tree_text(batch->spans, batch->marks, {.sibling_limit = 0}));
      },
      name, last, "The tree as text.");
  trace.def(
      "as_dict",
      [](const Name& wanted, const Last& count) { return trace_dict(*read(wanted, count)); }, name,
      last, "The tree as nested dicts.");
  trace.def(
      "as_json",
      [](const Name& wanted, const Last& count) {
        const auto batch = read(wanted, count);
        return json_text(report::tree_json(batch->spans, batch->marks));
      },
      name, last, "The tree as JSON.");
  trace.def(
      "as_columns",
      [](const Name& wanted, const Last& count) {
        return trace_columns(*read(wanted, count, MarksAs::kText));
      },
      name, last, "One row per span: the columns of the DataFrame.");
  nb::class_<ArrowTable>(trace, "ArrowTable",
                         "Spans as an Arrow table, for anything that reads the Arrow C stream.")
      .def("__arrow_c_stream__", &ArrowTable::stream, nb::arg("requested_schema") = nb::none())
      .def("__len__", [](const ArrowTable& self) { return self.batch->spans.size(); });
  trace.def(
      "as_arrow",
      [](const Name& wanted, const Last& count) {
        return ArrowTable{read(wanted, count, MarksAs::kText)};
      },
      name, last, "One row per span, as Arrow.");
  nb::class_<SummaryTable>(trace, "SummaryTable",
                           "Spans added up by name, as text, page, JSON or Arrow.")
      .def("__arrow_c_stream__", &SummaryTable::stream, nb::arg("requested_schema") = nb::none())
      .def("text",
           [](const SummaryTable& self) { return printable(report::summary_text(*self.summary)); })
      .def("html",
           [](const SummaryTable& self) { return printable(report::summary_html(*self.summary)); })
      .def("json",
           [](const SummaryTable& self) { return json_text(report::summary_json(*self.summary)); });
  trace.def("summarize", &summarize, name, last, "Added up by name.");
}

}  // namespace sonde::native
