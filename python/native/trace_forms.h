// The forms in which a trace reaches Python as objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::native {

// The tree as nested dicts.
nanobind::dict trace_dict(const model::Batch& batch);
// One column per field, one entry per span. The batch has its marks as text.
nanobind::dict trace_columns(const model::Batch& batch);

// A new str; what is not UTF-8 is replaced. nullptr with an exception set.
PyObject* new_text(std::string_view utf8);
// 32 hexadecimal digits, or None for no id. nullptr with an exception set.
PyObject* new_id(const base::Id& id);

}  // namespace sonde::native
