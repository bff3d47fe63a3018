#include "python/native/exceptions.h"

#include <cstddef>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/base/json_writer.h"
#include "engine/base/utf8.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"
#include "python/native/module.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

// With the other attributes of a session, these stay below the limit of an interned name.
constexpr std::size_t kMaxTypeBytes = 120;
constexpr std::size_t kMaxMessageBytes = 400;
constexpr std::size_t kMaxEncodedMessage = 520;  // control characters take six bytes each

// As a traceback prints it: with its module, unless that is builtins or the program itself.
std::string traceback_name(PyTypeObject* type) {
  std::string name = type->tp_name;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return name;
  const auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  if (heap->ht_qualname != nullptr) {
    if (!with_utf8(heap->ht_qualname, [&](std::string_view utf8) { name = utf8; })) PyErr_Clear();
  }
  PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
  if (module == nullptr || !PyUnicode_Check(module)) return name;
  const auto prefix = [&](std::string_view utf8) {
    if (utf8 != "builtins" && utf8 != "__main__") name = std::string(utf8) + "." + name;
  };
  if (!with_utf8(module, prefix)) PyErr_Clear();
  return name;
}

bool is_plain(PyObject* value) {
  return value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) ||
         PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBytes_CheckExact(value);
}

// An exception of a worker of torch's loader is a text with a traceback: its first line says which
// worker it was, and the error follows the last frame.
std::string without_traceback(std::string_view text) {
  const std::size_t traceback = text.find("\nOriginal Traceback (most recent call last)");
  const std::size_t frame = text.rfind("\n  File \"");
  if (traceback == std::string_view::npos || frame == std::string_view::npos)
    return std::string(text);
  std::size_t line = text.find('\n', frame + 1);
  while (line != std::string_view::npos && line + 1 < text.size() && text[line + 1] == ' ')
    line = text.find('\n', line + 1);
  if (line == std::string_view::npos) return std::string(text);
  std::string_view what = text.substr(line + 1);
  if (const std::size_t end = what.find_last_not_of(" \n"); end != std::string_view::npos)
    what = what.substr(0, end + 1);
  return std::string(text.substr(0, traceback)) + " ... " + std::string(what);
}

void append_text(std::string& out, PyObject* text) {
  const auto add = [&](std::string_view utf8) {
    out += base::cut_utf8(without_traceback(utf8), kMaxMessageBytes);
  };
  if (text == nullptr || !with_utf8(text, add)) PyErr_Clear();
}

// The arguments of an exception, as far as they can be shown without running code of the program.
std::string text_of(PyObject* value) {
  std::string out;
  if (PyUnicode_Check(value)) {
    append_text(out, value);
  } else if (is_plain(value)) {
    append_text(out, Ref(PyObject_Repr(value)).get());
  } else {
    out = "<" + traceback_name(Py_TYPE(value)) + ">";
  }
  return out;
}

std::string text_of_args(PyObject* args) {
  if (args == nullptr || !PyTuple_Check(args)) return {};
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  std::string out;
  for (Py_ssize_t i = 0; i < count && out.size() < kMaxMessageBytes; ++i) {
    if (i != 0) out += ", ";
    out += text_of(PyTuple_GET_ITEM(args, i));
  }
  return out;
}

bool all_plain(PyObject* args) {
  if (args == nullptr || !PyTuple_CheckExact(args)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (!is_plain(PyTuple_GET_ITEM(args, i))) return false;
  }
  return true;
}

// Does str() of it run only code of the interpreter, on plain values?
bool str_is_harmless(PyObject* exception) {
  const auto own_str = [](PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_str; };
  const reprfunc str = Py_TYPE(exception)->tp_str;
  if (!all_plain(reinterpret_cast<PyBaseExceptionObject*>(exception)->args)) return false;
  if (str == own_str(PyExc_OSError)) {
    PyObject* file = reinterpret_cast<PyOSErrorObject*>(exception)->filename;
    PyObject* other = reinterpret_cast<PyOSErrorObject*>(exception)->filename2;
    return (file == nullptr || is_plain(file)) && (other == nullptr || is_plain(other));
  }
  return str == own_str(PyExc_BaseException) || str == own_str(PyExc_KeyError);
}

// "" with an exception set when it fails.
std::string own_text(PyObject* exception) {
  std::string out;
  if (const Ref text(PyObject_Str(exception)); text) append_text(out, text.get());
  return out;
}

// The C API may have raised a class and not yet made an object of it.
std::string plain_message(PyObject* value) {
  if (value == nullptr || value == Py_None) return {};
  if (!PyExceptionInstance_Check(value))
    return PyTuple_Check(value) ? text_of_args(value) : text_of(value);
  std::string out = str_is_harmless(value) ? own_text(value) : std::string();
  PyErr_Clear();
  return out.empty() ? text_of_args(reinterpret_cast<PyBaseExceptionObject*>(value)->args) : out;
}

std::string full_message(PyObject* exception) {
  std::string out = own_text(exception);
  if (PyErr_Occurred() == nullptr) return out;
  PyErr_Clear();
  return plain_message(exception);
}

ExceptionText describe(PyObject* type, std::string_view message) {
  ExceptionText out;
  base::JsonWriter text;
  text.string(base::cut_utf8(traceback_name(reinterpret_cast<PyTypeObject*>(type)), kMaxTypeBytes));
  out.type = text.str();
  text.clear();
  for (std::size_t room = kMaxMessageBytes; text.empty() || text.size() > kMaxEncodedMessage;
       room -= room / 4) {
    text.clear();
    text.string(base::cut_utf8(message, room));
  }
  out.message = text.str();
  return out;
}

// note_exception(exception, since=0): adds it to the spans that are open on this stack, or to those
// of them that were opened since.
PyObject* note_exception(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"exception", "since", nullptr};
  PyObject* exception = nullptr;
  unsigned long long since = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|K:note_exception", const_cast<char**>(names),
                                   &exception, &since))
    return nullptr;
  add_exception(exception_text(exception).members(), since);
  Py_RETURN_NONE;
}

// next_sequence(): what note_exception takes as `since`.
PyObject* next_sequence(PyObject*, PyObject*) {
  const record::ThreadState* thread = record::this_thread_if_it_records();
  return PyLong_FromUnsignedLongLong(thread != nullptr ? record::next_sequence(*thread) : 0);
}

PyMethodDef g_functions[] = {
    {"note_exception", as_method(note_exception), METH_VARARGS | METH_KEYWORDS,
     "note_exception(exception, since=0)\n--\n\n"
     "Adds the exception to the open spans of this stack, or to those opened since `since`."},
    {"next_sequence", next_sequence, METH_NOARGS,
     "next_sequence()\n--\n\nThe number of the span that this thread opens next: what "
     "note_exception takes as `since`."},
    {nullptr, nullptr, 0, nullptr},
};

bool closes_a_generator(PyObject* type) {
  return PyErr_GivenExceptionMatches(type, PyExc_GeneratorExit) != 0;
}

}  // namespace

std::string ExceptionText::members() const {
  if (type.empty()) return {};
  const auto member = [](std::string_view name, const std::string& value) {
    return std::string("\"").append(name).append("\":").append(value);
  };
  return member(base::kExceptionAttr, type) + ',' + member(base::kExceptionMessageAttr, message);
}

std::string exception_members() noexcept {
  if (PyErr_Occurred() == nullptr) return {};
  const KeepError raised;
  try {
    if (PyExceptionClass_Check(raised.type()) && !closes_a_generator(raised.type()))
      return describe(raised.type(), plain_message(raised.value())).members();
  } catch (...) {
    // No memory for the text: the span is written without it.
  }
  return {};
}

ExceptionText exception_text(PyObject* exception) noexcept {
  const KeepError keep;
  if (!PyExceptionInstance_Check(exception)) return {};
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(exception));
  try {
    return closes_a_generator(type) ? ExceptionText() : describe(type, full_message(exception));
  } catch (...) {
    return {};
  }
}

void add_exception(const std::string& members, std::uint64_t since) noexcept {
  record::ThreadState* thread = record::this_thread_if_it_records();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack != nullptr && !members.empty())
    record::add_attrs(*stack, since, base::kExceptionAttr, members);
}

bool names_exception(std::string_view members) noexcept {
  return static_cast<bool>(base::find_member(members, base::kExceptionAttr));
}

bool add_exceptions(PyObject* scopes) { return PyModule_AddFunctions(scopes, g_functions) == 0; }

}  // namespace sonde::native
