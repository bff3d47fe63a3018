// What a pass over a loader opens, feeds and ends: the moves of the table about such a pass.
#include <cstdint>

#include "engine/hook/level.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

// -- it begins --

void feed_check(Seen& seen, Here, Pass& pass, const Moment&) {
  pass.role = Pass::Role::kMember;
  pass.evaluates = true;
  if (!seen.leaves.only_loads()) settle(seen);
}

void open_check(Seen& seen, Here here, Pass& pass, const Moment& now) {
  pass.nested = seen.in_pass_or_epoch(seen.levels(here.stack));
  make_room_for_check(seen, here, now);
  settle(seen);
  close_look(seen, here, now);
  own(seen, here, pass, true, now);
}

void feed_epoch(Seen& seen, Here here, Pass& pass, const Moment& now) {
  close_look(seen, here, now);
  pass.nested = true;
  pass.role = Pass::Role::kMember;
}

void open_epoch(Seen& seen, Here here, Pass& pass, const Moment& now) {
  close_look(seen, here, now);
  settle(seen);
  if (seen.step.is_open_innermost()) close_step(seen, here.thread, now);
  seen.cycle.reset();
  own(seen, here, pass, false, now);
}

// -- it fetches again --

void resume_check(Seen& seen, Here here, Pass& pass, const Moment& now) {
  end_those_before(seen, here, pass, true, now);
  make_room_for_check(seen, here, now);
  settle(seen);
  close_look(seen, here, now);
  if (!seen.levels(here.stack).validation) own(seen, here, pass, true, now);
}

void fetch_in_look(Seen& seen, Here here, Pass&, const Moment& now) {
  make_room_for_check(seen, here, now);
  settle(seen);
  open_look(seen, here, now);
}

void replace_counted(Seen& seen, Here here, Pass& pass, const Moment& now) {
  end_counted(seen, here.thread, now);
  reopen_epoch(seen, here, pass, now);
}

void reopen_epoch(Seen& seen, Here here, Pass& pass, const Moment& now) {
  own(seen, here, pass, false, now);
  pass.nested = false;
}

// -- its loader is exhausted --

void keep_left(Seen& seen, Here, Pass& pass, const Moment&) {
  pass.fetch.drained = true;
  seen.epochs.final_batch = pass.on_last();
}

void drop_empty_scope(Seen& seen, Here here, Pass& pass, const Moment& now) {
  if (cancel(seen, pass.scope)) return forget(seen, pass);
  finish_pass(seen, here, pass, now);
}

void finish_pass(Seen& seen, Here here, Pass& pass, const Moment& now) {
  if (pass.fetch.count == 1) pass.fetch.count = 2;  // the loader is empty: that is not a peek
  finish(seen, here.thread, pass, now);
  open_owed_step(seen, here, now);
}

// -- it is over, and has a scope --

namespace {

void close_scope_of(Seen& seen, record::ThreadState& thread, Pass& pass, const Moment& now) {
  // A validation of nothing is taken back: all that was in it is the fetch that gave no batch.
  const bool empty = pass.is_check() && record::is_open(pass.scope) &&
                     record::is_innermost(pass.scope) &&
                     record::next_sequence(thread) == pass.scope.sequence + 2;
  if (empty && cancel(seen, pass.scope)) return;
  if (seen.holds_program(pass.scope)) {
    close_around(thread, pass.scope, now);
  } else {
    close_span(thread, pass.scope, now);
  }
}

}  // namespace

void finish_peek(Seen& seen, Here here, Pass& pass, const Moment& now) {
  record::relabel_scope(pass.scope, names().peek, record::kNoIndex);
  finish_check(seen, here, pass, now);
}

void finish_epoch(Seen& seen, Here here, Pass& pass, const Moment& now) {
  report_epoch(seen, pass.scope.sequence);
  seen.cycle.reset();
  for (Pass* member : seen.passes.known)
    member->relation.parted = member->role == Pass::Role::kMember;
  finish_check(seen, here, pass, now);
}

void finish_check(Seen& seen, Here here, Pass& pass, const Moment& now) {
  close_scope_of(seen, here.thread, pass, now);
  forget(seen, pass);
  drop_closed(seen, false);
}

}  // namespace sonde::hook
