#include "python/native/attrs.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/record/lane.h"

namespace sonde::native {

namespace {

constexpr int kMaxNesting = 16;
constexpr std::size_t kMaxMembers =
    record::kMaxPayloadBytes * 3 / 4;  // the rest is for a name that is not interned

void encode_text(base::JsonWriter& out, PyObject* text) {
  if (!with_utf8(text, [&](std::string_view utf8) { out.string(utf8); })) {
    PyErr_Clear();
    out.string("<text that cannot be encoded>");
  }
}

void encode_repr(base::JsonWriter& out, PyObject* value) {
  const Ref text(PyObject_Repr(value));
  if (text) return encode_text(out, text.get());
  PyErr_Clear();
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

void encode_key(base::JsonWriter& out, PyObject* key) {
  if (PyUnicode_Check(key)) return encode_text(out, key);
  const Ref text(PyObject_Str(key));
  if (text) return encode_text(out, text.get());
  PyErr_Clear();
  encode_repr(out, key);
}

void encode_sequence(base::JsonWriter& out, PyObject* value, int depth) {
  const Ref items(PySequence_Fast(value, ""));
  if (!items) {
    PyErr_Clear();
    return encode_repr(out, value);
  }
  out.raw('[');
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    if (i != 0) out.raw(',');
    encode_value(out, PySequence_Fast_GET_ITEM(items.get(), i), depth + 1);
    if (out.size() > 2 * kMaxMembers) break;  // too long: it will be replaced by a note
  }
  out.raw(']');
}

// Encodes a copy, because a repr of an item may change the dict.
void encode_dict(base::JsonWriter& out, PyObject* value, int depth) {
  const Ref copy(PyDict_Copy(value));
  if (!copy) {
    PyErr_Clear();
    return encode_repr(out, value);
  }
  out.raw('{');
  Py_ssize_t position = 0;
  PyObject *key, *item;
  for (bool first = true; PyDict_Next(copy.get(), &position, &key, &item); first = false) {
    if (!first) out.raw(',');
    encode_key(out, key);
    out.raw(':');
    encode_value(out, item, depth + 1);
    if (out.size() > 2 * kMaxMembers) break;
  }
  out.raw('}');
}

}  // namespace

Ref plain_scalar(PyObject* value) noexcept {
  Ref result(PyObject_CallMethod(value, "item", nullptr));
  if (!result) {
    PyErr_Clear();
    return {};
  }
  PyObject* item = result.get();
  const bool plain = PyFloat_Check(item) || PyLong_Check(item) || PyUnicode_Check(item);
  return plain ? std::move(result) : Ref();
}

void encode_value(base::JsonWriter& out, PyObject* value, int depth) noexcept {
  if (value == Py_None) return out.null();
  if (PyBool_Check(value)) return out.boolean(value == Py_True);
  if (PyLong_Check(value)) return encode_int(out, value);
  if (PyFloat_Check(value)) return out.number(PyFloat_AS_DOUBLE(value));
  if (PyUnicode_Check(value)) return encode_text(out, value);
  if (depth < kMaxNesting && (PyList_Check(value) || PyTuple_Check(value)))
    return encode_sequence(out, value, depth);
  if (depth < kMaxNesting && PyDict_Check(value)) return encode_dict(out, value, depth);
  if (const Ref scalar = plain_scalar(value)) return encode_value(out, scalar.get(), kMaxNesting);
  encode_repr(out, value);
}

void encode_members(base::JsonWriter& out, PyObject* dict) noexcept {
  const Ref copy(PyDict_Copy(dict));
  if (!copy) {
    PyErr_Clear();
    return;
  }
  base::JsonWriter member;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(copy.get(), &position, &key, &value)) {
    member.clear();
    if (!out.empty()) member.raw(',');
    encode_key(member, key);
    member.raw(':');
    const std::size_t head = member.size();
    encode_value(member, value);
    if (out.size() + member.size() > kMaxMembers) {
      const std::string size = std::to_string(member.size() - head);
      const std::string start(member.view().substr(0, head));
      if (out.size() + head + 64 > kMaxMembers) break;
      member.clear();
      member.raw(start);
      member.string("<" + size + " bytes, too long for an attribute>");
    }
    out.raw(member.view());
  }
}

}  // namespace sonde::native
