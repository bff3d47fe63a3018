#include "engine/report/autopsy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/line/line.h"
#include "engine/model/ending.h"
#include "engine/model/mark_index.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/report/ending.h"
#include "engine/report/times.h"

namespace sonde::report {

using model::Autopsy;
using model::Fate;
using model::OpenScope;
using model::ProcessState;

namespace {

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

class ProcessText {
 public:
  ProcessText(const ProcessState& process, std::int64_t now_ns)
      : process_(process), now_ns_(now_ns) {}

  std::string draw() {
    heading();
    verdict();
    open_scopes();
    last_records();
    losses();
    return std::move(out_);
  }

 private:
  bool running() const { return process_.fate == Fate::kRunning; }
  bool ended() const { return process_.fate == Fate::kShutDown || process_.fate == Fate::kEnded; }

  void heading() {
    out_ += fmt::format("pid {}, rank {}", process_.pid, process_.rank);
    if (process_.world_size > 1) out_ += fmt::format(" of {}", process_.world_size);
    if (!process_.host.empty()) out_ += fmt::format(", on {}", process_.host);
    constexpr std::string_view kFates[] = {"running", "DEAD", "shut down properly", "ended",
                                           "DEAD, recovered earlier"};
    out_ += fmt::format(": {}", kFates[static_cast<int>(process_.fate)]);
    if (process_.fate == Fate::kEnded) left_behind();
    out_ += '\n';
  }

  void left_behind() {
    const std::uint64_t left =
        process_.unflushed_spans + process_.unflushed_marks + process_.open.size();
    out_ += fmt::format(", {} {} left in the journal", plural(left, "record"),
                        left == 1 ? "was" : "were");
    if (process_.moved) out_ += left == 1 ? " and is now recovered" : " and are now recovered";
  }

  void verdict() {
    if (process_.started_ns != 0)
      out_ += fmt::format("  started            {}\n", point_in_time(process_.started_ns));
    out_ += fmt::format("  last sign of life  {}", point_in_time(process_.last_sign_ns));
    out_ += fmt::format(" ({} ago)\n",
                        long_duration(std::max<std::int64_t>(now_ns_ - process_.last_sign_ns, 0)));
    exception();
    if (process_.fate == Fate::kEnded)
      out_ += "  It shut down, but not everything could be written to the spool then.\n";
    if (process_.fate != Fate::kDead && process_.fate != Fate::kRecovered) return;
    out_ += process_.fate == Fate::kDead
                ? "  It died some time between then and now; the exact time is not known. "
                : "  It died some time after that and before it was recovered; the exact time is "
                  "not known. ";
    out_ +=
        "The cause is not recorded here:\n  look at dmesg and at the scheduler's log for an OOM "
        "kill, at the "
        "program's own output for anything else.\n";
  }

  // The process goes on after an exception that was not caught: it waits for its threads, or hangs.
  void exception() {
    for (const OpenScope& scope : process_.open) {
      const std::string uncaught =
          scope.session ? exception_text(model::ending_of(scope.span)) : std::string();
      if (!uncaught.empty()) out_ += fmt::format("  uncaught exception {}\n", uncaught);
    }
  }

  void open_scopes() {
    if (process_.open.empty()) {
      if (!ended()) out_ += "  no scope was open\n";
      return;
    }
    out_ += running() ? "  open now:\n"
            : ended() ? "  open when it ended:\n"
                      : "  open when it died:\n";
    const OpenScope* previous = nullptr;
    std::size_t depth = 0;
    for (const OpenScope& scope : process_.open) {
      if (previous == nullptr || scope.lane != previous->lane ||
          scope.session != previous->session) {
        depth = scope.session ? 0 : 1;
        if (!scope.session) thread_line(scope);
      }
      scope_line(scope, depth++);
      previous = &scope;
    }
  }

  void thread_line(const OpenScope& scope) {
    if (process_.fate == Fate::kRecovered) {
      out_ += fmt::format("    thread {}\n", scope.span.thread_id);
    } else if (scope.task) {
      out_ += fmt::format("    asyncio task (stack {})\n", scope.lane);
    } else {
      out_ += fmt::format("    thread {} (tid {})\n", scope.span.thread_id, scope.os_thread_id);
    }
  }

  void scope_line(const OpenScope& scope, std::size_t depth) {
    out_.append(4 + 2 * depth, ' ');
    line::append_label(out_, scope.span);
    const std::int64_t until = scope.span.seen_ns != model::kNone ? scope.span.seen_ns
                               : running()                        ? now_ns_
                                                                  : process_.last_sign_ns;
    out_ += fmt::format(" - open for {}",
                        long_duration(std::max<std::int64_t>(until - scope.span.start_ns, 0)));
    if (!scope.span.attrs.empty()) out_ += fmt::format(" {{{}}}", scope.span.attrs);
    out_ += '\n';
  }

  void last_records() {
    if (!process_.last_spans.empty()) out_ += "  last closed spans, the newest last:\n";
    const model::MarkIndex marks(process_.last_marks);
    for (const model::Span& span : process_.last_spans) {
      out_ += fmt::format("    {}  ", point_in_time(span.end_ns));
      line::append_line(out_, span, marks.of(span.id));
      if (const std::string how = ending_text(model::ending_of(span)); !how.empty())
        out_ += fmt::format(" [{}]", how);
      out_ += '\n';
    }
    last_marks();
  }

  // Marks of the spans above are in their lines already. The others are on scopes that were open,
  // or on spans that closed earlier; the names of some of those are not known.
  void last_marks() {
    std::string named, nameless;
    for (const model::Mark& mark : process_.last_marks) {
      const auto on_it = [&](const model::Span& span) { return span.id == mark.span_id; };
      if (std::any_of(process_.last_spans.begin(), process_.last_spans.end(), on_it)) continue;
      const model::Span* scope = scope_of(mark);
      std::string& out = scope != nullptr ? named : nameless;
      out += fmt::format("    {}  {}=", point_in_time(mark.ts_ns), mark.name);
      line::append_value(out, mark);
      if (scope != nullptr) {
        out += " on ";
        line::append_label(out, *scope);
      }
      out += '\n';
    }
    if (!named.empty()) out_ += "  last marks on other scopes:\n" + named;
    if (!nameless.empty()) out_ += "  last marks of spans that closed earlier:\n" + nameless;
  }

  // Null: it is not known.
  const model::Span* scope_of(const model::Mark& mark) const {
    for (const OpenScope& open : process_.open) {
      if (open.span.id == mark.span_id) return &open.span;
    }
    const auto& earlier = process_.marked_spans;
    const auto found = std::ranges::find(earlier, mark.span_id, &model::Span::id);
    return found == earlier.end() ? nullptr : &*found;
  }

  void losses() {
    if (process_.unflushed_spans + process_.unflushed_marks != 0) {
      out_ +=
          fmt::format("  not yet in the spool: {}, {}\n", plural(process_.unflushed_spans, "span"),
                      plural(process_.unflushed_marks, "mark"));
    }
    if (process_.lost_records != 0) {
      out_ += fmt::format("  lost while it ran, because its buffers were full: {}\n",
                          plural(process_.lost_records, "record"));
    }
    if (process_.damaged != 0) {
      out_ += fmt::format("  unreadable in its journal: {}\n", plural(process_.damaged, "record"));
    }
  }

  const ProcessState& process_;
  std::int64_t now_ns_;
  std::string out_;
};

std::string processes_text(const std::vector<ProcessState>& processes, std::int64_t now_ns) {
  std::string out;
  for (const ProcessState& process : processes) out += ProcessText(process, now_ns).draw() + "\n";
  return out;
}

std::string recovery_text(const Autopsy& autopsy) {
  std::string out;
  const bool left = std::any_of(
      autopsy.processes.begin(), autopsy.processes.end(), [](const ProcessState& process) {
        return process.fate == Fate::kDead || process.fate == Fate::kEnded;
      });
  const model::Recovery& moved = autopsy.moved;
  if (moved.journals != 0) {
    out += fmt::format("moved into the spool: {}, {} and {} that had been open, from {}\n",
                       plural(moved.spans, "span"), plural(moved.marks, "mark"),
                       plural(moved.open_scopes, "scope"), plural(moved.journals, "journal"));
    if (moved.damaged != 0)
      out += fmt::format("at least {} could not be read; what they held is lost\n",
                         plural(moved.damaged, "record"));
    for (const std::string& file : moved.files) out += fmt::format("  {}\n", file);
    out += fmt::format("see them with: sonde trace {}\n", autopsy.source);
  } else if (left && autopsy.kept) {
    out += fmt::format(
        "nothing was moved (--keep); to move these records into the spool: sonde autopsy {}\n",
        autopsy.source);
  }
  return out;
}

std::string ended_text(const Autopsy& autopsy) {
  if (autopsy.ended.empty()) return {};
  std::string out = "processes that ended, the newest last:\n";
  for (const auto& [session, ending] : autopsy.ended)
    out += fmt::format("  {}  pid {}, rank {}: {}\n", point_in_time(session.end_ns), session.pid,
                       session.rank, session_ending_text(ending));
  return out;
}

}  // namespace

std::string autopsy_text(const Autopsy& autopsy) {
  if (autopsy.processes.empty() && autopsy.problems.empty()) {
    constexpr std::string_view kNone =
        "no process is running there, and every process that died has been recovered";
    // A failure is something to report, although nothing is left to recover.
    const auto failed = [](const model::EndedProcess& one) { return one.ending.failed(); };
    if (std::ranges::none_of(autopsy.ended, failed)) {
      return fmt::format("nothing to report in {}: {}\n", autopsy.source, kNone) +
             ended_text(autopsy);
    }
    return fmt::format("{}: {}\n", autopsy.source, kNone) + ended_text(autopsy);
  }
  std::string out = processes_text(autopsy.processes, autopsy.now_ns);
  out += ended_text(autopsy);
  out += recovery_text(autopsy);
  if (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string running_text(const model::RunningProcesses& running) {
  std::string out = processes_text(running.processes, running.now_ns);
  if (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace sonde::report
