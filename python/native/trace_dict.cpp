#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/non_finite.h"
#include "engine/model/mark_fields.h"
#include "engine/model/mark_index.h"
#include "engine/model/span_fields.h"
#include "engine/model/tree.h"
#include "python/native/python.h"
#include "python/native/trace_forms.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using model::Kind;
using model::kNone;
namespace fields = model::mark_fields;

nb::str key_of(fields::Field field) {
  const std::string_view name = fields::kKeys[field].name();
  return nb::str(name.data(), name.size());
}

nb::object optional_int(std::int64_t value) {
  return value == kNone ? nb::none() : nb::steal(PyLong_FromLongLong(value));
}

// None for a float that is not finite, as in the JSON.
nb::object mark_value(const model::Mark& mark) {
  switch (mark.type) {
    case model::ValueType::kFloat:
      if (fields::is_non_finite(mark)) return nb::none();
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
  return nb::steal(new_text(mark.text));
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
    nb::dict out;
    model::for_each_field<model::kTree>([&]<typename One>(One) {
      out[nb::str(One::kName.data(), One::kName.size())] = value<One>(i);
    });
    return out;
  }

  template <typename One>
  nb::object value(std::uint32_t i) {
    const model::Span& span = batch_.spans[i];
    if constexpr (One::kKind == Kind::kMarks) {
      return marks(span);
    } else if constexpr (One::kKind == Kind::kChildren) {
      nb::list children;
      for (const std::uint32_t child : tree_.children_of(i)) children.append(node(child));
      return children;
    } else if constexpr (One::kKind == Kind::kWall) {
      return optional_int(model::wall_us(span));
    } else if constexpr (One::kKind == Kind::kId || One::kKind == Kind::kParent) {
      return nb::steal(new_id(One::of(span)));
    } else if constexpr (One::kKind == Kind::kName) {
      return nb::steal(new_text(One::of(span)));
    } else if constexpr (One::kKind == Kind::kMembers) {
      const std::string_view members = One::of(span);
      return members.empty() ? nb::object(nb::dict())
                             : loads_(nb::steal(new_text("{" + std::string(members) + "}")));
    } else {
      return optional_int(One::of(span));
    }
  }

  nb::list marks(const model::Span& span) {
    nb::list out;
    for (const model::Mark* mark : marks_.of(span.id)) {
      nb::dict entry;
      entry[key_of(fields::kName)] = nb::steal(new_text(mark->name));
      entry[key_of(fields::kValue)] = mark_value(*mark);
      entry[key_of(fields::kKind)] = nb::steal(new_text(fields::kind_name(*mark)));
      if (fields::is_non_finite(*mark)) {
        entry[key_of(fields::kNonFinite)] = nb::steal(new_text(base::non_finite_name(mark->real)));
      }
      out.append(entry);
    }
    return out;
  }

  const model::Batch& batch_;
  model::Tree tree_;
  model::MarkIndex marks_;
  nb::object loads_;
};

}  // namespace

nb::dict trace_dict(const model::Batch& batch) { return DictBuilder(batch).build(); }

PyObject* new_text(std::string_view utf8) {
  PyObject* object = str_of(utf8, "surrogatepass");
  if (object != nullptr) return object;
  PyErr_Clear();
  return str_of(utf8, "replace");
}

PyObject* new_id(const base::Id& id) {
  if (!id) return Py_NewRef(Py_None);
  PyObject* object = PyUnicode_New(32, 127);
  if (object != nullptr) base::write_hex(id, static_cast<char*>(PyUnicode_DATA(object)));
  return object;
}

}  // namespace sonde::native
