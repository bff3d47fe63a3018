// Attributes: any Python values to JSON, without ever failing the caller. What JSON has no form for
// is written as its repr.
#pragma once

#include "engine/base/json_writer.h"
#include "python/native/python.h"

namespace sonde::native {

// Appends one value. Leaves no exception set.
void encode_value(base::JsonWriter& out, PyObject* value, int depth = 0) noexcept;

// Appends `"key":value` members, separated by commas, for a dict. Everything together stays below
// the limit of one record: a value that would break it is replaced by a note that says so.
void encode_members(base::JsonWriter& out, PyObject* dict) noexcept;

// A numpy or torch scalar, or anything else with an item() that gives a plain value: that value.
// Otherwise an empty reference. Leaves no exception set.
Ref plain_scalar(PyObject* value) noexcept;

}  // namespace sonde::native
