// Attributes: encodes any Python value as JSON, and never fails. A value that JSON has no form for
// is written as its repr.
#pragma once

#include <string>

#include "engine/base/json_writer.h"
#include "python/native/python.h"

namespace sonde::native {

// One value. Leaves no exception set. Without memory it is null.
std::string encode_value(PyObject* value) noexcept;

// Appends the members of a dict as `"key":value`, separated by commas. Together they stay below the
// limit of one record: a value that does not fit is replaced by a note that says so. Without memory
// the remaining members are left out.
void encode_members(base::JsonWriter& out, PyObject* dict) noexcept;

// The plain value of a NumPy or torch scalar, or of anything else whose item() returns one.
// Otherwise an empty reference. Leaves no exception set.
Ref plain_scalar(PyObject* value) noexcept;

}  // namespace sonde::native
