#include "engine/run/session_finder.h"

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::run {

void SessionFinder::know(const model::Span& span) {
  parents_.try_emplace(span.id, span.parent_id);
  if (span.is_session()) sessions_.insert(span.id);
}

base::Id SessionFinder::session_of(const model::Span& span) const noexcept {
  constexpr int kDeepest = 1024;  // a damaged file may go round in circles
  base::Id at = span.id;
  for (int i = 0; i < kDeepest; ++i) {
    if (sessions_.contains(at)) return at;
    const auto found = parents_.find(at);
    if (found == parents_.end()) return {};
    at = found->second;
  }
  return {};
}

}  // namespace sonde::run
