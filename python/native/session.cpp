// The life of a session: start, stop, flush, counters. The GIL is released wherever it is not
// needed.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/advice.h"
#include "engine/base/attr_names.h"
#include "engine/base/face.h"
#include "engine/base/log.h"
#include "engine/base/swallowed.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/lane.h"
#include "engine/session/engine.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/exceptions.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/session_options.h"

namespace nb = nanobind;

namespace sonde::native {

namespace {

// The host's handler of the engine's messages. One per process. Needs the GIL.
class LogHandler {
 public:
  static void set(PyObject* handler) noexcept;  // nullptr: none

 private:
  static void call(base::LogLevel level, std::string_view logger, std::string_view text);
  static PyObject* one_;
};
PyObject* LogHandler::one_ = nullptr;

// No signal handler runs on a thread of the profiler, so what is raised there is no interrupt.
void count_error(std::string_view place) noexcept {
  const bool on_own_thread = session::Engine::hands_over() && !on_main_thread();
  if (on_own_thread) PyErr_Clear();
  if (on_own_thread || drop_error()) base::note_swallowed(place);
}

void LogHandler::call(base::LogLevel level, std::string_view logger, std::string_view text) {
  with_gil([&] {
    if (one_ == nullptr) return;
    const KeepError keep;
    // Not "s#": its meaning depends on a macro that another header may have set differently.
    const Ref done(call_or_stop([&] {
      return PyObject_CallFunction(one_, "iNN", level == base::LogLevel::kInfo ? 20 : 30,
                                   str_of(logger, "replace"), str_of(text, "replace"));
    }));
    if (!done) count_error("log");
  });
}

void LogHandler::set(PyObject* handler) noexcept {
  const Ref old(std::exchange(one_, Py_XNewRef(handler)));
  base::set_log_handler(handler != nullptr ? call : nullptr);
}

void start(nb::dict given) {
  session::Options options = session_options(given);
  options.on_termination = [](std::uint64_t deadline_ns) {
    if (!interpreter_is_ending()) Boundaries::instance().end_all_before_death(deadline_ns);
  };
  session::Engine::instance().start(std::move(options));
}

void annotate(nb::dict attrs) {
  std::vector<session::Attributes::Member> members;
  for (const auto& [name, value] : attrs) {
    members.emplace_back(nb::cast<std::string>(name), encode_value(value.ptr()));
  }
  session::Engine::instance().annotate(members);
}

void annotate_exception(nb::handle exception) {
  const ExceptionText text = exception_text(exception.ptr());
  if (text.type.empty()) return;
  session::Engine::instance().annotate({{std::string(base::kExceptionAttr), text.type},
                                        {std::string(base::kExceptionMessageAttr), text.message}});
}

void stop(bool at_exit) {
  session::Engine& engine = session::Engine::instance();
  if (!engine.active()) return;
  if (at_exit) engine.await_exit_status();
  settle_hooks(true);
  engine.begin_stop();
  {
    const nb::gil_scoped_release release;
    engine.await_stop();
  }
  std::shared_ptr<void> rest = engine.finish_stop();
  const nb::gil_scoped_release release;
  rest.reset();
  session::Engine::await_messages();
}

bool put_off_stop(nb::handle call) {
  return session::Engine::put_off_stop([call = share(nb::borrow(call))] {
    with_gil([&] {
      const Ref done(call_or_stop([&] { return PyObject_CallNoArgs(call.get()); }));
      if (!done) count_error("session");
    });
  });
}

void flush() {
  settle_hooks();
  const nb::gil_scoped_release release;
  session::Engine::instance().flush();
}

void set_recording(bool enabled, bool keep_trace) {
  if (enabled) {
    record::open_gate();
  } else {
    record::close_gate();
    if (!keep_trace) session::Engine::instance().forget_trace();
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
  out["cuda_event_count"] = probe::gpu_events_made();
  out["swallowed_error_count"] = all.swallowed.count;
  nb::dict swallowed;
  for (const auto& [place, count] : all.swallowed.by_place)
    swallowed[nb::str(place.c_str(), place.size())] = count;
  out["swallowed_errors"] = swallowed;
  return out;
}

void set_log_handler(nb::handle handler) {
  LogHandler::set(handler.is_none() ? nullptr : handler.ptr());
}

}  // namespace

void add_session(nb::module_& session) {
  session.def("start", &start, nb::arg("options"),
              "Open the session and start the drain thread, now or when something is recorded.");
  session.def(
      "set_face", [](nb::handle face) { base::set_face(face_of(face)); }, nb::arg("face"),
      "The API that messages speak for until a session begins.");
  session.def(
      "parent_recorded_nothing", [] { return sonde::session::Engine::instance().slept_at_fork(); },
      "In a forked child: the parent's session was on demand, and nothing had been recorded.");
  session.def("annotate", &annotate, nb::arg("attrs"), "Attributes of the session, from now on.");
  session.def("annotate_exception", &annotate_exception, nb::arg("exception"),
              "Record in the session an exception that was not caught.");
  session.def("stop", &stop, nb::arg("at_exit") = false,
              "Close every scope, write everything, end the session.");
  session.def(
      "stop_after_call", &put_off_stop, nb::arg("stop"),
      "On a thread where the profiler calls a handler or a sink: call this later; return True.");
  session.def(
      "calls_host", [] { return sonde::session::Engine::hands_over(); },
      "Does the profiler call a log handler or a sink of the host on this thread at this moment?");
  session.def("flush", &flush,
              "Return when everything recorded so far has gone through the sinks.");
  session.def("set_recording", &set_recording, nb::arg("enabled"), nb::arg("keep_trace") = false,
              "False: scopes and marks record nothing.");
  session.def("counters", &counters, "Losses, sizes and states.");
  session.def("set_log_handler", &set_log_handler, nb::arg("handler").none(),
              "Where the engine's own messages go: handler(level, logger, text).");
  session.def(
      "general_advice",
      [] {
        nb::dict all;
        for (const base::Advice& each : base::kAdvice)
          all[nb::str(each.key.data(), each.key.size())] =
              nb::str(each.words.data(), each.words.size());
        return all;
      },
      "What to do about each kind of trouble, by the key of its message.");
  session.def(
      "note_swallowed", [](const std::string& place) { base::note_swallowed(place); },
      nb::arg("place"), "Count an error after which the profiler goes on.");
  session.def(
      "reset_swallowed", [] { base::reset_swallowed(); }, "A session begins: count from zero.");
}

}  // namespace sonde::native
