#include "engine/hook/spans.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/moment.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;
using record::ThreadState;

namespace {

inline void end_on_gpu(const ScopeHandle& scope, const Moment& now) noexcept {
  record::end_on_gpu(scope, [&] { return now.event(); });
}

SONDE_COLD void close_other(ThreadState& thread, const ScopeHandle& scope, const Moment& now,
                            std::string_view error) {
  if (!record::is_open(scope)) return;
  end_on_gpu(scope, now);
  record::close_scope(thread, scope, {.replace_attrs = !error.empty(), .attrs = error}, now.ns);
}

}  // namespace

ScopeHandle open_span(Here here, const Opening& what, const Moment& now) {
  const std::uint32_t event = now.event();
  const std::uint8_t gpu = event != 0 ? record::kHasGpu : 0;
  const ScopeHandle scope =
      record::open_plain(here.thread, here.stack,
                         {.name = what.name,
                          .static_attrs = what.attrs,
                          .index = what.index,
                          .flags = static_cast<std::uint8_t>(what.flags | gpu),
                          .aux = event,
                          .start_ns = now.ns});
  if (!scope) [[unlikely]]
    probe::gpu_release(event);
  return scope;
}

void close_span(ThreadState& thread, ScopeHandle& scope, const Moment& now,
                std::string_view error) {
  if (!scope) return;
  if (!error.empty() || !record::is_plain(thread, scope)) [[unlikely]] {
    close_other(thread, scope, now, error);
  } else {
    end_on_gpu(scope, now);
    record::close_plain(thread, scope, record::ClosedBy::kSelf, now.ns,
                        record::Certainty::kCertain);
  }
  scope = {};
}

void close_around(ThreadState& thread, ScopeHandle& scope, const Moment& now) {
  if (!record::is_open(scope) || record::is_innermost(scope)) return close_span(thread, scope, now);
  end_on_gpu(scope, now);
  const record::ScopeView inside = record::first_inside(scope);
  record::close_beneath(thread, scope, inside ? std::min(now.ns, inside.start_ns()) : now.ns);
  scope = {};
}

void renew_span(ThreadState& thread, ScopeHandle& scope, std::int64_t index, const Moment& end,
                const Moment& start) {
  end_on_gpu(scope, end);
  scope = record::renew_beneath(
      thread, scope,
      {.index = index, .end_ns = end.ns, .start_ns = start.ns, .aux = start.event()});
}

bool cancel_span(ScopeHandle& scope) {
  const std::uint32_t event = record::view_of(scope).start_event();
  if (!record::cancel_scope(scope)) return false;
  if (event != 0) probe::gpu_release(event);
  scope = {};
  return true;
}

}  // namespace sonde::hook
