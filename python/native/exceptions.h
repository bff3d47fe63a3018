// An exception of the program, as attributes of the spans it passes through:
// "exception" is its class, "exception_message" its text. Both are short and valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "python/native/python.h"

namespace sonde::native {

// JSON members for the exception that is raised right now (PyErr_Occurred), which stays as it is;
// "" if there is none, and for GeneratorExit, which is how a generator is closed. Runs no code of
// the program, so it may be called anywhere with the GIL: the message is made from the arguments of
// the exception. For a span: ScopeEnd{.replace_attrs = true, .attrs = members}.
std::string exception_members() noexcept;

// The type and message of an exception object, with the text that str() gives. That may run code of
// the program, so it may be called only where no change of the training state is half done. Both
// are JSON strings, and empty for an exception that does not count.
struct ExceptionText {
  std::string type, message;
  std::string members() const;
};
ExceptionText exception_text(PyObject* exception) noexcept;

// Adds these members to the spans that are open on this stack and were opened since this number of
// a span.
void add_exception(const std::string& members, std::uint64_t since) noexcept;

// Do these attributes name an exception already, set by the program or by an earlier call?
bool names_exception(std::string_view members) noexcept;

}  // namespace sonde::native
