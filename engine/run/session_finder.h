// Finds the session around a span. A pid does not tell processes apart: containers that share a
// directory often have the same pids, and pids are used again.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::run {

class SessionFinder {
 public:
  void know(const model::Span& span);
  // The null id if the session, or a scope on the way to it, is not known.
  base::Id session_of(const model::Span& span) const noexcept;

 private:
  std::unordered_map<base::Id, base::Id, base::IdHash> parents_;
  std::unordered_set<base::Id, base::IdHash> sessions_;
};

}  // namespace sonde::run
