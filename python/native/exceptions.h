// An exception of the program's, as attributes of the spans it passes through:
// "exception" is its class, "exception_message" its text. Both are short and valid UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "python/native/python.h"

namespace sonde::native {

// JSON members for the exception that is raised right now (PyErr_Occurred), which stays as it is;
// "" if there is none, and for GeneratorExit, which is how a generator is closed. Runs no code of
// the program's, so it may be called anywhere with the GIL: the message is made of what the
// exception was raised with. For a span: ScopeEnd{.replace_attrs = true, .attrs = members}.
std::string exception_members() noexcept;

// Of an exception object, with the text that str() gives. That may be code of the program's: only
// where it may run, before anything of ours is half done. Each is a JSON
// string; no text at all where it is no exception that counts.
struct ExceptionText {
  std::string type, message;
  std::string members() const;
};
ExceptionText exception_text(PyObject* exception) noexcept;

// Have these attributes an exception already, by the program's own hand or from an earlier place?
bool names_exception(std::string_view members) noexcept;

}  // namespace sonde::native
