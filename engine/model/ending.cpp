#include "engine/model/ending.h"

#include <cstdint>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace {

// `how`: what the session says.
void end_session(Ending& ending, const Span& session, const base::JsonValue& how) {
  if (how.is(base::kEndedByException)) ending.kind = Ending::Kind::kException;
  if (how.is(base::kEndedByShutdown)) ending.kind = Ending::Kind::kShutDown;
  if (how.is(base::kEndedBySignal)) {
    ending.kind = Ending::Kind::kSignal;
    ending.signal = session.attr(base::kSignalAttr).text();
  }
  if (how.is(base::kEndedByExit)) {
    ending.kind = Ending::Kind::kExit;
    const base::JsonValue code = session.attr(base::kExitCodeAttr);
    const std::int64_t number = code.integer(kNone);
    if (number != kNone) ending.exit_code = number;
  }
}

}  // namespace

Ending ending_of(const Span& span) {
  Ending ending;
  if (span.attrs.empty()) return ending;
  ending.exception = span.attr(base::kExceptionAttr).text();
  if (!ending.exception.empty()) ending.message = span.attr(base::kExceptionMessageAttr).text();
  const base::JsonValue how = span.parent_id ? base::JsonValue() : span.attr(base::kEndedByAttr);
  if (!how.plain_text().empty()) {
    end_session(ending, span, how);
    return ending;
  }
  ending.closed_by = span.closed_by();
  if (!ending.exception.empty()) {
    ending.kind = Ending::Kind::kException;
  } else if (!ending.closed_by.empty()) {
    ending.kind = Ending::Kind::kClosed;
  }
  return ending;
}

}  // namespace sonde::model
