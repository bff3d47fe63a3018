// Evidence that is made up, for the tests of judge.h: no journal, no stack, no clock.
#pragma once

#include <gtest/gtest.h>

#include "engine/hook/judge.h"
#include "tests/engine/support/slots.h"

namespace sonde::hook {

using Kind = Leaf::Kind;
using Role = PassEvidence::Role;

class Judge : public ::testing::Test {
 protected:
  Leaf& add(Leaf leaf) {
    leaf.record = records_.add(7);
    leaf.sequence = records_.size();
    leaves_.add(leaf);
    return leaves_[leaves_.size() - 1];
  }
  // A fetch of this pass.
  void load(PassEvidence& pass) { pass.load_at = add({.kind = Kind::kLoad}).sequence; }

  Evidence nothing() const { return {.leaves = leaves_, .cycle = cycle_, .none_opened = true}; }
  // A forward begins, of a model that an optimizer owns.
  Evidence forward(bool gradients = true, bool training = true) const {
    Evidence seen = nothing();
    seen.gradients = gradients;
    seen.training = training;
    seen.owned = true;
    seen.reading =
        read_forward({.gradients = gradients, .training = training, .owned = Owned::kYes}, false);
    seen.untouched = true;
    return seen;
  }
  static Evidence in_step_of(Evidence seen, const PassEvidence* pass, bool done = false) {
    seen.step_open = seen.step_innermost = true;
    seen.fetched = seen.last = pass;
    seen.leader = pass != nullptr && pass->trained ? pass : nullptr;
    seen.done = seen.proven = done;
    return seen;
  }
  static Verdict first(const Evidence& seen) { return judge_forward(seen, Question::kValidation); }
  // This optimizer steps alone, again and again.
  void learn_cycle(const void* optimizer) {
    for (int i = 0; i < 2; ++i) {
      cycle_.begin();
      cycle_.note(optimizer);
    }
  }

  testing::ProvisionalRecords records_;
  Leaves leaves_;
  Cycle cycle_;
  PassEvidence pass_, other_;
  int optimizer_ = 0, second_ = 0;
};

}  // namespace sonde::hook
