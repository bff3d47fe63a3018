// mark(name, value, *, kind="point", **attrs)
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/record/mark.h"

#include "engine/base/face.h"
#include "engine/base/utf8.h"
#include "engine/hook/level.h"
#include "python/native/attrs.h"
#include "python/native/module.h"
#include "python/native/names.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

std::string_view cut(std::string_view utf8) {
  return base::cut_utf8(utf8, record::kMaxStringBytes);
}

thread_local bool t_full_warned = false;

void warn_full() {
  if (t_full_warned) return;
  t_full_warned = true;
  const base::Face& face = base::face();
  const std::string text =
      (face.prefix() +
       "mark buffer full: marks come faster than they are written, or no session is open; the "
       "newest are dropped and counted; ")
          .append(face.advise("marks-dropped"));
  warn_user(text.c_str());
}

thread_local bool t_long_warned = false;

void warn_long() {
  if (std::exchange(t_long_warned, true)) return;
  const std::string text = base::face().prefix() + "an int of more than " +
                           std::to_string(record::kMaxValueBytes) +
                           " digits is not recorded, and counted as a mark that was dropped; "
                           "mark it as a float, or its logarithm";
  warn_user(text.c_str());
}

bool set_int(record::MarkValue& mark, PyObject* value, Ref& digits) {
  int overflow = 0;
  mark.type = record::MarkType::kInt;
  mark.integer = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) return !(mark.integer == -1 && PyErr_Occurred());
  digits = Ref(PyLong_Type.tp_repr(value));
  if (!digits) return false;
  mark.type = record::MarkType::kBigInt;
  mark.integer = 0;
  return with_utf8(digits.get(), [&](std::string_view text) { mark.text = text; });
}

// Reads the value into the mark, which may point into `held`. False with an exception set.
bool set_value(record::MarkValue& mark, PyObject* value, Ref& held, bool converted = false) {
  if (PyFloat_Check(value)) {
    mark.type = record::MarkType::kFloat;
    mark.real = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (PyBool_Check(value)) {
    mark.type = record::MarkType::kBool;
    mark.integer = value == Py_True;
    return true;
  }
  if (PyLong_Check(value)) return set_int(mark, value, held);
  if (PyUnicode_Check(value)) {
    mark.type = record::MarkType::kString;
    Py_ssize_t length = 0;
    if (const char* data = PyUnicode_AsUTF8AndSize(value, &length)) {
      mark.text = cut({data, static_cast<std::size_t>(length)});
      return true;
    }
    PyErr_Clear();
    held = Ref(PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass"));
    if (!held) return false;
    mark.text = cut(
        {PyBytes_AS_STRING(held.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(held.get()))});
    return true;
  }
  if (!converted) {
    if (Ref scalar = plain_scalar(value)) {
      if (!PyUnicode_Check(scalar.get()) && !PyLong_Check(scalar.get()))
        return set_value(mark, scalar.get(), held, true);
      Ref inner;
      if (!set_value(mark, scalar.get(), inner, true)) return false;
      // The mark points into the scalar, or into the text made from it.
      held = mark.text.empty() ? Ref() : inner ? std::move(inner) : std::move(scalar);
      return true;
    }
  }
  PyErr_Format(
      PyExc_TypeError,
      "mark() value must be a float, int, str, or bool (or a numpy or torch scalar), not %.100s",
      Py_TYPE(value)->tp_name);
  return false;
}

bool set_kind(record::MarkValue& mark, PyObject* kind) {
  if (PyUnicode_Check(kind)) {
    mark.summary = PyUnicode_CompareWithASCIIString(kind, "summary") == 0;
    if (mark.summary || PyUnicode_CompareWithASCIIString(kind, "point") == 0) return true;
  }
  PyErr_Format(PyExc_ValueError, "mark() kind must be 'point' or 'summary', not %R", kind);
  return false;
}

// Cold: keywords. Takes name, value and kind out of them; the rest are attributes.
bool take_keywords(PyObject* const* values, PyObject* keys, PyObject** name, PyObject** value,
                   PyObject** kind, Ref& attrs) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    PyObject** target = PyUnicode_CompareWithASCIIString(key, "kind") == 0    ? kind
                        : PyUnicode_CompareWithASCIIString(key, "name") == 0  ? name
                        : PyUnicode_CompareWithASCIIString(key, "value") == 0 ? value
                                                                              : nullptr;
    if (target != nullptr) {
      if (*target != nullptr) {
        PyErr_Format(PyExc_TypeError, "mark() got multiple values for argument '%U'", key);
        return false;
      }
      *target = values[i];
      continue;
    }
    if (!attrs && !(attrs = Ref(PyDict_New()))) return false;
    if (PyDict_SetItem(attrs.get(), key, values[i]) != 0) return false;
  }
  return true;
}

void write(record::ThreadState& thread, record::Lane& stack, const record::MarkValue& mark) {
  if (record::write_mark(thread, stack, mark) != 0) [[likely]]
    return;
  if (mark.type == record::MarkType::kBigInt && mark.text.size() > record::kMaxValueBytes) {
    warn_long();
  } else {
    warn_full();
  }
}

// Writes the mark under this name; the text goes with the record where the name has no id.
void write_named(record::ThreadState& thread, record::Lane& stack, record::MarkValue& mark,
                 PyObject* name) {
  if (mark.name != 0) return write(thread, stack, mark);
  const auto write_text = [&](std::string_view utf8) {
    mark.name_text = utf8;
    write(thread, stack, mark);
  };
  if (!with_utf8(name, write_text)) PyErr_Clear();
}

PyObject* mark_any(PyObject* const* args, Py_ssize_t count, PyObject* keys) {
  PyObject* name = count > 0 ? args[0] : nullptr;
  PyObject* value = count > 1 ? args[1] : nullptr;
  PyObject* kind = nullptr;
  Ref attrs, held;
  if (count > 2) {
    PyErr_Format(PyExc_TypeError, "mark() takes 2 positional arguments but %zd were given", count);
    return nullptr;
  }
  if (keys != nullptr && !take_keywords(args + count, keys, &name, &value, &kind, attrs))
    return nullptr;
  if (name == nullptr || value == nullptr) {
    PyErr_SetString(PyExc_TypeError, name == nullptr ? "mark() missing required argument: 'name'"
                                                     : "mark() missing required argument: 'value'");
    return nullptr;
  }
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) Py_RETURN_NONE;
  record::MarkValue mark;
  if (kind != nullptr && !set_kind(mark, kind)) return nullptr;
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "mark() name must be a str, not %.100s", Py_TYPE(name)->tp_name);
    return nullptr;
  }
  if (!set_value(mark, value, held)) return nullptr;
  mark.name = name_id(name);
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) {
    record::count_laneless(true);
    warn_full();
    Py_RETURN_NONE;
  }
  if (!attrs && mark.name != 0) [[likely]] {
    write(*thread, *stack, mark);
    Py_RETURN_NONE;
  }
  base::JsonWriter members;
  if (attrs) encode_members(members, attrs.get());
  mark.attrs = members.view();
  write_named(*thread, *stack, mark, name);
  Py_RETURN_NONE;
}

PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keys) {
  if (keys != nullptr || count != 2 || !PyFloat_CheckExact(args[1]) ||
      !PyUnicode_CheckExact(args[0]))
    return mark_any(args, count, keys);
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) Py_RETURN_NONE;
  const std::uint32_t name = name_id(args[0]);
  record::Lane* stack = current_stack(*thread);
  if (name == 0 || stack == nullptr) [[unlikely]]
    return mark_any(args, count, keys);
  if (!record::write_float(*thread, *stack, name, PyFloat_AS_DOUBLE(args[1]))) [[unlikely]]
    warn_full();
  Py_RETURN_NONE;
}

// mark_innermost(level, name, value, summary): a mark on the innermost open scope called `level`,
// even if other scopes are open inside it.
PyObject* mark_innermost(PyObject*, PyObject* args) {
  PyObject *level = nullptr, *name = nullptr, *value = nullptr;
  int summary = 0;
  if (!PyArg_ParseTuple(args, "UUOp:mark_innermost", &level, &name, &value, &summary))
    return nullptr;
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr) Py_RETURN_FALSE;
  record::MarkValue mark;
  Ref held;
  const std::uint32_t level_id = name_id(level);
  mark.span = level_id != 0 ? hook::open_level(*stack, level_id) : 0;
  if (mark.span == 0) Py_RETURN_FALSE;
  mark.span_lists_it = true;
  if (!set_value(mark, value, held)) return nullptr;
  mark.summary = summary != 0;
  mark.name = name_id(name);
  write_named(*thread, *stack, mark, name);
  Py_RETURN_TRUE;
}

PyMethodDef g_level_functions[] = {{"mark_innermost", mark_innermost, METH_VARARGS,
                                    "mark_innermost(level, name, value, summary)\n--\n\nAttach a "
                                    "value to the innermost open scope of "
                                    "that name; false if there is none."},
                                   {nullptr, nullptr, 0, nullptr}};

PyMethodDef g_mark = {"mark", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(mark)),
                      METH_FASTCALL | METH_KEYWORDS,
                      "mark(name, value, *, kind='point', **attrs)\n--\n\nAttach a value to the "
                      "innermost open scope."};

}  // namespace

bool add_mark(PyObject* core) {
  const Ref name(PyUnicode_FromString("sonde._core"));
  const Ref function(PyCFunction_NewEx(&g_mark, nullptr, name.get()));
  return function && PyModule_AddObjectRef(core, "mark", function.get()) == 0;
}

bool add_level_marks(PyObject* scopes) {
  return PyModule_AddFunctions(scopes, g_level_functions) == 0;
}

}  // namespace sonde::native
