#include "python/native/attrs.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "engine/record/lane.h"
#include "python/native/callbacks.h"

namespace sonde::native {

namespace {

constexpr int kMaxNesting = 16;
constexpr std::size_t kMaxMembers =
    record::kMaxPayloadBytes * 3 / 4;  // the rest is for a name that is not interned

std::string too_long(std::size_t bytes) {
  return "<" + std::to_string(bytes) + " bytes, too long for an attribute>";
}

void encode_text(base::JsonWriter& out, PyObject* text) {
  // Text that does not fit is not copied: it may be as large as the memory that is left.
  const auto encode = [&](std::string_view utf8) {
    out.string(utf8.size() > kMaxMembers ? too_long(utf8.size()) : utf8);
  };
  if (!with_utf8(text, encode)) {
    PyErr_Clear();
    out.string("<text that cannot be encoded>");
  }
}

void encode_repr(base::JsonWriter& out, PyObject* value) {
  const Ref text(PyObject_Repr(value));
  if (text) return encode_text(out, text.get());
  drop_error();
  out.string(std::string("<") + Py_TYPE(value)->tp_name + " whose repr fails>");
}

void encode_int(base::JsonWriter& out, PyObject* value) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0 && !(small == -1 && PyErr_Occurred())) return out.number(std::int64_t{small});
  PyErr_Clear();
  // int.__repr__, because the repr of a subclass (an enum) may be anything.
  const Ref digits(PyLong_Type.tp_repr(value));
  if (!digits) {
    PyErr_Clear();  // more than the interpreter's limit on digits
    return out.string("<int with too many digits>");
  }
  with_utf8(digits.get(), [&](std::string_view utf8) { out.raw(utf8); });
}

void encode(base::JsonWriter& out, PyObject* value, int depth);

void encode_key(base::JsonWriter& out, PyObject* key) {
  if (PyUnicode_Check(key)) return encode_text(out, key);
  const Ref text(PyObject_Str(key));
  if (text) return encode_text(out, text.get());
  drop_error();
  encode_repr(out, key);
}

void encode_sequence(base::JsonWriter& out, PyObject* value, int depth) {
  const Ref items(PySequence_Fast(value, ""));
  if (!items) {
    drop_error();
    return encode_repr(out, value);
  }
  out.raw('[');
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (i != 0) out.raw(',');
    encode(out, PySequence_Fast_GET_ITEM(items.get(), i), depth + 1);
    if (out.size() > 2 * kMaxMembers) break;  // too long: it will be replaced by a note
  }
  out.raw(']');
}

// Encodes a copy, because a repr of an item may change the dict.
void encode_dict(base::JsonWriter& out, PyObject* value, int depth) {
  const Ref copy(PyDict_Copy(value));
  if (!copy) {
    drop_error();
    return encode_repr(out, value);
  }
  out.raw('{');
  Py_ssize_t position = 0;
  PyObject *key, *item;
  for (bool first = true; PyDict_Next(copy.get(), &position, &key, &item); first = false) {
    if (!first) out.raw(',');
    encode_key(out, key);
    out.raw(':');
    encode(out, item, depth + 1);
    if (out.size() > 2 * kMaxMembers) break;
  }
  out.raw('}');
}

void encode(base::JsonWriter& out, PyObject* value, int depth) {
  if (value == Py_None) return out.null();
  if (PyBool_Check(value)) return out.boolean(value == Py_True);
  if (PyLong_Check(value)) return encode_int(out, value);
  if (PyFloat_Check(value)) return out.number(PyFloat_AS_DOUBLE(value));
  if (PyUnicode_Check(value)) return encode_text(out, value);
  if (depth < kMaxNesting && (PyList_Check(value) || PyTuple_Check(value)))
    return encode_sequence(out, value, depth);
  if (depth < kMaxNesting && PyDict_Check(value)) return encode_dict(out, value, depth);
  if (const Ref scalar = plain_scalar(value)) return encode(out, scalar.get(), kMaxNesting);
  encode_repr(out, value);
}

// Appends `"key":value`, after a comma where it is not the first member. False: there is no room
// for it, nor for a note.
bool add_member(base::JsonWriter& out, base::JsonWriter& member, PyObject* key, PyObject* value) {
  member.clear();
  if (!out.empty()) member.raw(',');
  encode_key(member, key);
  member.raw(':');
  const std::size_t head = member.size();
  encode(member, value, 0);
  if (out.size() + member.size() > kMaxMembers) {
    if (out.size() + head + 64 > kMaxMembers) return false;
    const std::string note = too_long(member.size() - head);
    const std::string start(member.view().substr(0, head));
    member.clear();
    member.raw(start);
    member.string(note);
  }
  out.raw(member.view());
  return true;
}

}  // namespace

Ref plain_scalar(PyObject* value) noexcept {
  Ref result(PyObject_CallMethod(value, "item", nullptr));
  if (!result) {
    drop_error();
    return {};
  }
  PyObject* item = result.get();
  const bool plain = PyFloat_Check(item) || PyLong_Check(item) || PyUnicode_Check(item);
  return plain ? std::move(result) : Ref();
}

std::string encode_value(PyObject* value) noexcept {
  try {
    base::JsonWriter out;
    encode(out, value, 0);
    return out.str();
  } catch (const std::exception&) {
    return "null";  // no memory
  }
}

void encode_members(base::JsonWriter& out, PyObject* dict) noexcept {
  const Ref copy(PyDict_Copy(dict));
  if (!copy) {
    drop_error();
    return;
  }
  try {
    base::JsonWriter member;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(copy.get(), &position, &key, &value)) {
      if (!add_member(out, member, key, value)) break;
    }
  } catch (const std::exception&) {
    // No memory: the members before this one are recorded.
  }
}

}  // namespace sonde::native
