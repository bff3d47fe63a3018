#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/base/attr_names.h"
#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/model/mark_fields.h"
#include "engine/model/process.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"
#include "engine/report/autopsy.h"
#include "engine/report/ending.h"

namespace sonde::report {

using model::Autopsy;
using model::OpenScope;
using model::ProcessState;

namespace {

class AutopsyJson {
 public:
  std::string draw(const Autopsy& autopsy) {
    out_.raw("{\"directory\":");
    out_.string(autopsy.source);
    number("now_ns", autopsy.now_ns);
    list("processes", autopsy.processes,
         [this](const ProcessState& process) { this->process(process); });
    list("ended", autopsy.ended, [this](const model::EndedProcess& one) { ended(one); });
    out_.raw(",\"moved\":{\"kept\":");
    out_.boolean(autopsy.kept);
    number("journals", autopsy.moved.journals);
    number("spans", autopsy.moved.spans);
    number("marks", autopsy.moved.marks);
    number("open_scopes", autopsy.moved.open_scopes);
    number("damaged", autopsy.moved.damaged);
    list("files", autopsy.moved.files, [this](const std::string& file) { out_.string(file); });
    out_.raw('}');
    list("problems", autopsy.problems,
         [this](const std::string& problem) { out_.string(problem); });
    out_.raw("}\n");
    return out_.str();
  }

 private:
  void key(std::string_view name) { out_.raw(fmt::format(",\"{}\":", name)); }
  template <typename Number>
  void number(std::string_view name, Number value) {
    key(name);
    out_.number(static_cast<std::int64_t>(value));
  }
  void optional(std::string_view name, std::int64_t value) {
    key(name);
    model::write_optional(out_, value);
  }
  template <typename T, typename Write>
  void list(std::string_view name, const std::vector<T>& items, Write write) {
    key(name);
    out_.raw('[');
    for (const T& item : items) {
      if (&item != &items.front()) out_.raw(',');
      write(item);
    }
    out_.raw(']');
  }

  void process(const ProcessState& process) {
    constexpr std::string_view kFates[] = {"running", "dead", "shut_down", "ended", "recovered"};
    out_.raw(fmt::format("{{\"fate\":\"{}\"", kFates[static_cast<int>(process.fate)]));
    number("pid", process.pid);
    number("rank", process.rank);
    number("world_size", process.world_size);
    key("host");
    out_.string(process.host);
    number("started_ns", process.started_ns);
    number("last_sign_ns", process.last_sign_ns);
    list("open", process.open, [this](const OpenScope& scope) { open(scope); });
    list("last_spans", process.last_spans, [this](const model::Span& span) {
      out_.raw('{');
      span_fields(span);
      out_.raw('}');
    });
    list("last_marks", process.last_marks, [this](const model::Mark& mark) { this->mark(mark); });
    number("unflushed_spans", process.unflushed_spans);
    number("unflushed_marks", process.unflushed_marks);
    number("lost_records", process.lost_records);
    number("damaged", process.damaged);
    out_.raw('}');
  }

  // What is not known is null.
  void ended(const model::EndedProcess& one) {
    const model::Span& session = one.session;
    out_.raw("{\"pid\":");
    out_.number(std::int64_t{session.pid});
    number("rank", session.rank);
    number("started_ns", session.start_ns);
    number("ended_ns", session.end_ns);
    for (const std::string_view name : {base::kEndedByAttr, base::kExitCodeAttr, base::kSignalAttr,
                                        base::kExceptionAttr, base::kExceptionMessageAttr}) {
      key(name);
      const std::string_view value = session.attr(name).raw();
      out_.raw(value.empty() ? std::string_view("null") : value);
    }
    key("how");
    out_.string(session_ending_text(one.ending));
    key("failed");
    out_.boolean(one.ending.failed());
    out_.raw('}');
  }

  void open(const OpenScope& scope) {
    out_.raw('{');
    span_fields(scope.span);
    number("os_thread_id", scope.os_thread_id);
    number("stack", scope.lane);
    key("task");
    out_.boolean(scope.task);
    key("session");
    out_.boolean(scope.session);
    out_.raw('}');
  }

  void span_fields(const model::Span& span) {
    bool first = true;
    model::for_each_field<model::kAutopsy>([&]<typename One>(One) {
      out_.raw(One::key().substr(first ? 1 : 0));
      first = false;
      model::write_field<One>(out_, span);
    });
  }

  void mark(const model::Mark& mark) {
    namespace fields = model::mark_fields;
    out_.raw('{');
    out_.raw(fields::kKeys[fields::kSpanId].first());
    model::write_optional(out_, mark.span_id);
    out_.raw(fields::kKeys[fields::kName].next());
    out_.string(mark.name);
    out_.raw(fields::kKeys[fields::kValue].next());
    model::write_value(out_, mark);
    out_.raw(fields::kKeys[fields::kTime].next());
    out_.number(mark.ts_ns);
    model::write_nonfinite(out_, mark);
    out_.raw('}');
  }

  base::JsonWriter out_;
};

}  // namespace

std::string autopsy_json(const Autopsy& autopsy) { return AutopsyJson().draw(autopsy); }

}  // namespace sonde::report
