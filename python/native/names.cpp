#include "python/native/names.h"

#include <cstdint>
#include <string_view>

#include "engine/record/names.h"
#include "python/native/callbacks.h"

namespace sonde::native {

void warn_user(const char* text) noexcept {
  // Raised from here and not from Python code of ours, so that the warning names a line of the
  // program.
  const Ref terminal(PyImport_ImportModule("sonde.terminal"));
  PyObject* stream = PySys_GetObject("stderr");  // borrowed
  const Ref hidden(terminal && stream != nullptr
                       ? PyObject_CallMethod(terminal.get(), "hide", "O", stream)
                       : nullptr);
  if (!hidden) drop_error();
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) != 0) drop_error();
  if (!hidden) return;
  const Ref shown(PyObject_CallMethod(terminal.get(), "show", "O", hidden.get()));
  if (!shown) drop_error();
}

namespace detail {

CachedName g_names[kCacheSize];

std::uint32_t intern_slow(PyObject* text) noexcept {
  std::uint32_t id = 0;
  if (!with_utf8(text, [&](std::string_view utf8) { id = record::intern(utf8); })) PyErr_Clear();
  if (id == 0) return 0;
  CachedName& cached = g_names[slot_of(text)];
  PyObject* old = cached.text;
  Py_INCREF(text);
  cached = {text, id};
  Py_XDECREF(old);
  return id;
}

}  // namespace detail

}  // namespace sonde::native
