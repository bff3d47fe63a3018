// Opening and closing the scopes of a training loop at a Moment, GPU event included.
//
// For the thread that runs the stack. Nothing here knows what the scopes mean.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/moment.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

struct Opening {
  std::uint32_t name = 0, attrs = 0;  // interned
  std::int64_t index = 0;
  std::uint8_t flags = 0;
};

SONDE_HOT record::ScopeHandle open_span(Here here, const Opening& what, const Moment& now);
// Closes the scope, with the scopes inside it; the handle is empty afterwards. `error`: JSON
// members that say which exception ended the scope.
SONDE_HOT void close_span(record::ThreadState& thread, record::ScopeHandle& scope,
                          const Moment& now, std::string_view error = {});
// The same, but scopes that the program has opened inside go on. They lie beside the scope from now
// on, so the scope ends where the first of them began.
void close_around(record::ThreadState& thread, record::ScopeHandle& scope, const Moment& now);
// Ends the scope and begins another one in its place, around what the program has opened inside.
void renew_span(record::ThreadState& thread, record::ScopeHandle& scope, std::int64_t index,
                const Moment& end, const Moment& start);
// Takes the innermost scope back as if it had never been opened. False: it is not the innermost.
bool cancel_span(record::ScopeHandle& scope);

}  // namespace sonde::hook
