// start, stop, flush, counters: the engine's lifecycle, with the GIL where it has to be and nowhere
// else.
#include "python/native/session.h"
#include "python/native/hooks.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/log.h"
#include "engine/hook/training.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/session/engine.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/module.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

struct Era {
  base::Id key;
  base::ClockAnchor anchor;
  std::int32_t pid = 0, rank = 0;
};
std::vector<Era> g_past_eras;
Era g_forked;  // what there is when the process forks

Era this_era() noexcept {
  const record::Header& head = record::Journal::instance().header();
  return {head.key, head.anchor, static_cast<std::int32_t>(head.pid), head.rank};
}

Era era_of(std::uint32_t era) noexcept {
  return era < g_past_eras.size() ? g_past_eras[era] : this_era();
}

PyObject* g_log_handler = nullptr;

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Takes the GIL for a callback; nothing happens once the interpreter is on its way out.
template <typename Call>
void with_gil(Call call) {
  if (interpreter_is_ending()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  call();
  PyGILState_Release(state);
}

void log_to_python(base::LogLevel level, std::string_view logger, std::string_view text) {
  with_gil([&] {
    if (g_log_handler == nullptr) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const Ref done(PyObject_CallFunction(
        g_log_handler, "is#s#", level == base::LogLevel::kInfo ? 20 : 30, logger.data(),
        static_cast<Py_ssize_t>(logger.size()), text.data(), static_cast<Py_ssize_t>(text.size())));
    if (!done) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  });
}

void say_callback_failed(const char* which) {
  const Ref text(PyErr_Occurred() ? PyUnicode_FromString("") : nullptr);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  std::string what = "an error";
  if (const Ref shown(value != nullptr ? PyObject_Repr(value) : nullptr); shown) {
    with_utf8(shown.get(), [&](std::string_view utf8) { what = utf8; });
  }
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  base::log_once(base::LogLevel::kWarning, "cirron.flush", which,
                 std::string("the ") + which + " sink failed (" + what +
                     "); it is called again with the next batch");
}

// A Python callable that the drain thread may own: released under the GIL.
std::shared_ptr<PyObject> share(nb::object callable) {
  return {callable.release().ptr(),
          [](PyObject* object) { with_gil([object] { Py_DECREF(object); }); }};
}

void call_lines(PyObject* callable, const std::vector<std::string>& lines) {
  with_gil([&] {
    const Ref list(PyList_New(static_cast<Py_ssize_t>(lines.size())));
    for (std::size_t i = 0; list && i < lines.size(); ++i) {
      PyObject* line = PyUnicode_DecodeUTF8(lines[i].data(),
                                            static_cast<Py_ssize_t>(lines[i].size()), "replace");
      if (line == nullptr) break;
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), line);
    }
    const Ref done(PyErr_Occurred() ? nullptr : PyObject_CallOneArg(callable, list.get()));
    if (!done) say_callback_failed("line");
  });
}

void call_batch(PyObject* callable, std::string_view json) {
  with_gil([&] {
    const Ref text(
        PyUnicode_DecodeUTF8(json.data(), static_cast<Py_ssize_t>(json.size()), "replace"));
    const Ref done(text ? PyObject_CallOneArg(callable, text.get()) : nullptr);
    if (!done) say_callback_failed("event stream");
  });
}

// (level, glob or None, callable)
session::LineOutlet line_outlet(nb::handle outlet) {
  const auto level = nb::cast<std::string>(outlet[0]);
  session::LineOutlet made;
  made.filter.level = model::level_called(level).value_or(model::Level::kStep);
  made.filter.name = nb::cast<std::optional<std::string>>(outlet[1]).value_or("");
  made.write = [callable = share(nb::borrow(outlet[2]))](const std::vector<std::string>& lines) {
    call_lines(callable.get(), lines);
  };
  return made;
}

void start(std::optional<std::string> output_dir, bool spool, double flush_interval,
           std::uint64_t spool_max_bytes, std::uint32_t trace_max_spans, std::int32_t rank,
           std::int32_t local_rank, std::int32_t world_size, bool on_demand, nb::dict attrs,
           nb::list lines, nb::object on_batch) {
  session::Options options;
  options.output_dir = output_dir.value_or("");
  options.spool = spool;
  options.flush_interval_ns = static_cast<std::uint64_t>(std::min(flush_interval, 1e9) * 1e9);
  options.spool_max_bytes = spool_max_bytes;
  options.trace_max_spans = trace_max_spans;
  options.rank = rank;
  options.local_rank = local_rank;
  options.world_size = world_size;
  options.on_demand = on_demand;
  base::JsonWriter members;
  encode_members(members, attrs.ptr());
  options.attrs = members.str();
  for (const nb::handle outlet : lines) options.lines.push_back(line_outlet(outlet));
  if (!on_batch.is_none()) {
    options.on_batch = [callable = share(std::move(on_batch))](std::string_view json) {
      call_batch(callable.get(), json);
    };
  }
  options.on_termination = [] {
    if (!interpreter_is_ending()) end_epochs_before_death();
  };
  hook::Training::begin_session();
  session::Engine::instance().start(std::move(options));
}

void annotate(nb::dict attrs) {
  std::vector<session::Attributes::Member> members;
  for (const auto& [name, value] : attrs) {
    base::JsonWriter json;
    encode_value(json, value.ptr());
    members.emplace_back(nb::cast<std::string>(name), json.str());
  }
  session::Engine::instance().annotate(members);
}

void annotate_exception(nb::handle exception) {
  const ExceptionText text = exception_text(exception.ptr());
  if (text.type.empty()) return;
  session::Engine::instance().annotate(
      {{"exception", text.type}, {"exception_message", text.message}});
}

void stop(bool at_exit) {
  session::Engine& engine = session::Engine::instance();
  if (!engine.active()) return;
  if (at_exit) engine.await_exit_status();
  g_past_eras.push_back(this_era());
  settle_hooks(true);
  engine.begin_stop();
  {
    const nb::gil_scoped_release release;
    engine.await_stop();
  }
  engine.finish_stop();
}

void flush() {
  settle_hooks();
  const nb::gil_scoped_release release;
  session::Engine::instance().flush();
}

void set_recording(bool enabled) {
  if (enabled) {
    record::open_gate();
  } else {
    record::close_gate();
    session::Engine::instance().forget_trace();
  }
}

nb::dict counters() {
  const session::Counters all = session::Engine::instance().counters();
  nb::dict out;
  out["scope_drop_count"] = all.dropped_scopes;
  out["mark_drop_count"] = all.dropped_marks;
  out["span_drop_count"] = all.dropped_spans;
  out["spool_drop_count"] = all.evicted_files;
  out["spool_bytes"] = all.spool_bytes;
  out["spool_write_failures"] = all.write_failures;
  out["spool_lost_batches"] = all.lost_batches;
  out["spool_waiting_batches"] = all.waiting_batches;
  out["recovered_journals"] = all.recovered_journals;
  out["recovered_spans"] = all.recovered_spans;
  out["recovery_problems"] = all.recovery_problems;
  out["clock_steps"] = all.clock_steps;
  out["damaged_records"] = all.damaged_records;
  out["flushed_batches"] = all.flushed_batches;
  out["snapshot_count"] = all.snapshots;
  out["snapshot_drop_count"] = all.dropped_snapshots;
  out["blob_count"] = all.blobs;
  out["blob_drop_count"] = all.dropped_blobs;
  using Mode = session::Counters::Mode;
  out["flush_mode"] = all.mode == Mode::kNormal     ? "normal"
                      : all.mode == Mode::kDegraded ? "degraded"
                                                    : "stopped";
  if (all.journal.empty()) {
    out["journal"] = nb::none();
  } else {
    out["journal"] = nb::str(all.journal.c_str(), all.journal.size());
  }
  out["journal_bytes"] = all.journal_bytes;
  return out;
}

void set_log_handler(nb::object handler) {
  PyObject* old = g_log_handler;
  g_log_handler = handler.is_none() ? nullptr : handler.release().ptr();
  base::set_log_handler(g_log_handler != nullptr ? log_to_python : nullptr);
  Py_XDECREF(old);
}

std::string encode_json(nb::handle value) {
  base::JsonWriter out;
  encode_value(out, value.ptr());
  return out.str();
}

}  // namespace

std::uint32_t current_era() noexcept { return static_cast<std::uint32_t>(g_past_eras.size()); }

base::Id era_key(std::uint32_t era) noexcept { return era_of(era).key; }
base::ClockAnchor era_anchor(std::uint32_t era) noexcept { return era_of(era).anchor; }
std::int32_t era_pid(std::uint32_t era) noexcept { return era_of(era).pid; }
std::int32_t era_rank(std::uint32_t era) noexcept { return era_of(era).rank; }

PyObject* mark_ids_of(const base::Id& span) {
  flush();
  std::vector<base::Id> ids;
  session::Engine::instance().read_mark_ids(span, ids);
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(ids.size()));
  for (std::size_t i = 0; list != nullptr && i < ids.size(); ++i) {
    char text[32];
    base::write_hex(ids[i], text);
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    PyUnicode_FromStringAndSize(text, sizeof text));
  }
  return list;
}

void add_session(nb::module_& module) {
  // A forked child has ids and a clock of its own; the span objects it inherits keep theirs.
  pthread_atfork([] { g_forked = this_era(); }, nullptr, [] { g_past_eras.push_back(g_forked); });
  module.def("start", &start, nb::kw_only(), nb::arg("output_dir").none(), nb::arg("spool"),
             nb::arg("flush_interval"), nb::arg("spool_max_bytes"), nb::arg("trace_max_spans"),
             nb::arg("rank"), nb::arg("local_rank"), nb::arg("world_size"), nb::arg("on_demand"),
             nb::arg("attrs"), nb::arg("lines"), nb::arg("on_batch").none(),
             "Open the session and start the drain thread, now or when something is recorded.");
  module.def(
      "slept_at_fork", [] { return session::Engine::instance().slept_at_fork(); },
      "In a forked child: the parent's session was on demand, and nothing had been recorded.");
  module.def("annotate", &annotate, nb::arg("attrs"), "Attributes of the session, from now on.");
  module.def("annotate_exception", &annotate_exception, nb::arg("exception"),
             "The session says that this exception was raised in it and caught by nobody.");
  module.def("stop", &stop, nb::arg("at_exit") = false,
             "Close every scope, write everything, end the session.");
  module.def("flush", &flush, "Return when everything recorded so far has gone through the sinks.");
  module.def(
      "active", [] { return session::Engine::instance().active(); }, "Whether a session is open.");
  module.def("set_recording", &set_recording, nb::arg("enabled"),
             "False: scopes and marks record nothing.");
  module.def("counters", &counters, "Losses, sizes and states.");
  module.def("set_log_handler", &set_log_handler, nb::arg("handler").none(),
             "Where the engine's own messages go: handler(level, logger, text).");
  module.def("encode_json", &encode_json, nb::arg("value").none(),
             "A value as the spool writes it; its repr where JSON has no form for it.");
}

}  // namespace sonde::native
