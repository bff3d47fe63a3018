#include "python/native/session_options.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/session/sink.h"
#include "python/native/attrs.h"
#include "python/native/callbacks.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

using session::Options;

// A sink has raised. The program's main thread calls it where no other thread can be started; an
// interrupt there is the program's.
void say_callback_failed(std::string_view which) {
  if (on_main_thread() && PyErr_ExceptionMatches(PyExc_Exception) == 0) return pass_on();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  std::string what = "an error";
  if (const Ref shown(value != nullptr ? PyObject_Repr(value) : nullptr); shown) {
    with_utf8(shown.get(), [&](std::string_view utf8) { what = utf8; });
  }
  drop_error();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  session::say_sink_failed(which, what);
}

void call_lines(PyObject* callable, const std::vector<std::string>& lines,
                const std::string& target) {
  with_gil([&] {
    const Ref list(PyList_New(static_cast<Py_ssize_t>(lines.size())));
    for (std::size_t i = 0; list && i < lines.size(); ++i) {
      PyObject* line = str_of(lines[i], "replace");
      if (line == nullptr) break;
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), line);
    }
    const bool made = !PyErr_Occurred();
    const Ref done(made ? call_or_stop([&] { return PyObject_CallOneArg(callable, list.get()); })
                        : nullptr);
    if (!done) say_callback_failed(target);
  });
}

void call_batch(PyObject* callable, std::string_view json) {
  with_gil([&] {
    const Ref text(str_of(json, "replace"));
    const Ref done(text ? call_or_stop([&] { return PyObject_CallOneArg(callable, text.get()); })
                        : nullptr);
    if (!done) say_callback_failed("event stream");
  });
}

// (target, level, glob or None, callable)
session::LineOutlet line_outlet(nb::handle outlet) {
  session::LineOutlet made;
  made.target = nb::cast<std::string>(outlet[0]);
  const auto level = nb::cast<std::string>(outlet[1]);
  const std::optional<model::Level> known = model::level_called(level);
  if (!known) throw nb::value_error(("start() knows no level " + level).c_str());
  made.filter.level = *known;
  made.filter.name = nb::cast<std::optional<std::string>>(outlet[2]).value_or("");
  made.write = [callable = share(nb::borrow(outlet[3])),
                target = made.target](const std::vector<std::string>& lines) {
    call_lines(callable.get(), lines, target);
  };
  return made;
}

void read_attrs(Options& options, nb::handle attrs) {
  base::JsonWriter members;
  encode_members(members, attrs.ptr());
  options.attrs = members.str();
}

void read_lines(Options& options, nb::handle outlets) {
  for (const nb::handle outlet : outlets) options.lines.push_back(line_outlet(outlet));
}

void read_on_batch(Options& options, nb::handle callable) {
  if (callable.is_none()) return;
  options.on_batch = [shared = share(nb::borrow(callable))](std::string_view json) {
    call_batch(shared.get(), json);
  };
}

void read_flush_interval(Options& options, nb::handle seconds) {
  options.flush_interval_ns =
      static_cast<std::uint64_t>(std::min(nb::cast<double>(seconds), 1e9) * 1e9);
}

template <auto Member>
void plain(Options& options, nb::handle value) {
  options.*Member = nb::cast<std::remove_reference_t<decltype(options.*Member)>>(value);
}

// The options that python/sonde/opening.py hands over, all in this list.
struct Field {
  const char* name;
  void (*read)(Options& options, nb::handle value);
};
constexpr Field kFields[] = {
    {"output_dir",
     [](Options& options, nb::handle path) {
       options.output_dir = nb::cast<std::optional<std::string>>(path).value_or("");
     }},
    {"flush_interval", read_flush_interval},
    {"spool_max_bytes", plain<&Options::spool_max_bytes>},
    {"trace_max_spans", plain<&Options::trace_max_spans>},
    {"rank", plain<&Options::rank>},
    {"local_rank", plain<&Options::local_rank>},
    {"world_size", plain<&Options::world_size>},
    {"on_demand", plain<&Options::on_demand>},
    {"attrs", read_attrs},
    {"lines", read_lines},
    {"on_batch", read_on_batch},
    {"face", [](Options& options, nb::handle face) { options.face = face_of(face); }},
};

}  // namespace

session::Options session_options(const nb::dict& given) {
  Options options;
  for (const Field& field : kFields) {
    if (!given.contains(field.name))
      throw nb::type_error((std::string("start() needs ") + field.name).c_str());
    try {
      field.read(options, given[field.name]);
    } catch (const nb::cast_error&) {
      throw nb::type_error((std::string("start() cannot use this ") + field.name).c_str());
    }
  }
  if (given.size() != std::size(kFields))
    throw nb::type_error("start() was given an option that it does not know");
  return options;
}

std::shared_ptr<PyObject> share(nb::object callable) {
  return {callable.release().ptr(),
          [](PyObject* object) { with_gil([object] { Py_DECREF(object); }); }};
}

base::Face face_of(nb::handle face) {
  base::Face made;
  made.name = nb::cast<std::string>(face["name"]);
  for (const auto& [key, advice] : nb::cast<nb::dict>(face["advice"]))
    made.advice[nb::cast<std::string>(key)] = nb::cast<std::string>(advice);
  return made;
}

}  // namespace sonde::native
