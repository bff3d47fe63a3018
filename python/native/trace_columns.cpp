#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/export/span_columns.h"
#include "engine/model/span_fields.h"
#include "engine/model/tree.h"
#include "python/native/python.h"
#include "python/native/trace_forms.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using model::Kind;
using model::kNone;

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
  return new_text({column.text.data() + from, length});
}

class FrameBuilder {
 public:
  explicit FrameBuilder(const model::Batch& batch)
      : spans_(batch.spans), columns_(exporting::make_columns(batch)) {}

  nb::dict build() {
    nb::dict out;
    model::for_each_field<model::kFrame>([&]<typename One>(One) {
      out[nb::str(One::kName.data(), One::kName.size())] = make<One>();
    });
    return out;
  }

 private:
  template <typename One>
  nb::object make() {
    const std::size_t count = spans_.size();
    if constexpr (One::kKind == Kind::kId) {
      return object_column(count, [&](std::size_t i) { return new_id(One::of(spans_[i])); });
    } else if constexpr (One::kKind == Kind::kParent) {
      return object_column(count, [&](std::size_t i) { return parent(i); });
    } else if constexpr (One::kKind == Kind::kName) {
      return object_column(count, [&](std::size_t i) { return name(spans_[i].name); });
    } else if constexpr (One::kKind == Kind::kMembers) {
      const exporting::Column& texts = columns_.at<"attrs">();
      return object_column(count, [&](std::size_t i) { return text_at(texts, i); });
    } else if constexpr (One::kKind == Kind::kMarks) {
      const exporting::Column& texts = columns_.at<"marks">();
      return object_column(count, [&](std::size_t i) { return text_at(texts, i); });
    } else if constexpr (One::kKind == Kind::kMarkCount) {
      return column(columns_.at<"mark_count">().longs);
    } else if constexpr (One::kKind == Kind::kDepth) {
      const std::vector<std::int32_t>& depths = columns_.at<"depth">().shorts;
      return column(std::vector<std::int64_t>(depths.begin(), depths.end()));
    } else if constexpr (One::kKind == Kind::kWall) {
      return int_column(spans_, model::wall_us);
    } else {
      return int_column(spans_, [](const model::Span& span) { return One::of(span); });
    }
  }

  // Neighbours mostly have the same parent and share one str for it.
  PyObject* parent(std::size_t i) {
    if (!parent_ || spans_[i].parent_id != spans_[i - 1].parent_id)
      parent_ = Ref(new_id(spans_[i].parent_id));
    return Py_XNewRef(parent_.get());
  }

  // Interned names share one str.
  PyObject* name(std::string_view utf8) {
    nb::object& known = names_[utf8.data()];
    if (!known.is_valid() || static_cast<std::size_t>(nb::len(known)) != utf8.size())
      known = nb::steal(new_text(utf8));
    return Py_NewRef(known.ptr());
  }

  const std::vector<model::Span>& spans_;
  exporting::SpanColumns columns_;
  Ref parent_;
  std::unordered_map<const char*, nb::object> names_;
};

}  // namespace

nb::dict trace_columns(const model::Batch& batch) { return FrameBuilder(batch).build(); }

}  // namespace sonde::native
