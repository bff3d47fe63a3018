// Every question that a verdict asks next is one that its judge answers.
#include <cstdint>
#include <functional>
#include <set>

#include "engine/base/swallowed.h"
#include "tests/engine/hook/judge_fixture.h"

namespace sonde::hook {
namespace {

using Asked = std::set<Question>;

class JudgeQuestions : public Judge {
 protected:
  using Answer = std::function<Verdict(const Evidence&, Question)>;

  // Everything that the judges look at before they ask on, in all combinations.
  void with_each_evidence(const std::function<void(const Evidence&)>& look_at) {
    for (unsigned bits = 0; bits < 1u << 15; ++bits) look_at(evidence(bits));
  }
  Evidence evidence(unsigned bits) {
    const auto is = [&](unsigned bit) { return (bits >> bit & 1) != 0; };
    pass_.evaluates = true;
    pass_.batches.sure = is(0);
    pass_.fetch.off = is(1);
    other_.trained = is(2);
    other_.fetch.drained = is(3);
    other_.fetch.left = is(4) ? 1 : 3;
    Evidence seen = forward(is(5), is(6));
    if (is(7)) seen.check = &pass_;
    if (is(8)) seen.owed = &pass_;
    if (is(9)) seen.leader = &other_;
    if (is(10)) seen.fetched = seen.last = &other_;
    seen.look_open = is(11);
    seen.step_open = seen.step_innermost = is(12);
    seen.done = is(13);
    seen.knows_training = is(14);
    return seen;
  }
  // Two questions are about a pass that was there when they came up, and no move takes it away.
  static bool is_about(Question question, const Evidence& seen) {
    if (question == Question::kWithLoader) return seen.leader != nullptr;
    return question != Question::kStepAfterRoom || seen.fetched != nullptr;
  }
  // All questions that can be reached from kValidation, if each question on the way may meet any
  // evidence that is_about() allows for it.
  Asked all_asked(const Answer& answer) {
    Asked asked{Question::kValidation};
    for (std::size_t before = 0; before != asked.size();) {
      before = asked.size();
      for (const Question question : Asked(asked)) {
        with_each_evidence([&](const Evidence& seen) {
          if (!is_about(question, seen)) return;
          const Question next = answer(seen, question).next;
          if (next != Question::kNothing) asked.insert(next);
        });
      }
    }
    return asked;
  }
  // The same without a cycle of optimizers, with one, and with leaves of each kind.
  Asked ever_asked(const Answer& answer) {
    Asked asked = all_asked(answer);
    learn_cycle(&optimizer_);
    asked.merge(all_asked(answer));
    add({.kind = Kind::kLoad});
    asked.merge(all_asked(answer));
    add({.evaluates = true, .sure = true, .foreign = true});
    asked.merge(all_asked(answer));
    add({.kind = Kind::kBackward});
    asked.merge(all_asked(answer));
    return asked;
  }

  const std::uint64_t swallowed_ = base::swallowed_errors().count;
};

TEST_F(JudgeQuestions, AForwardAnswersWhatItAsks) {
  const Asked asked = ever_asked(judge_forward);
  EXPECT_EQ(asked,
            (Asked{Question::kValidation, Question::kOwedStep, Question::kStep,
                   Question::kStepAfterRoom, Question::kWithLoader, Question::kWithoutLoader}));
  EXPECT_EQ(base::swallowed_errors().count, swallowed_);
}

TEST_F(JudgeQuestions, ABackwardAnswersWhatItAsks) {
  const Asked asked = ever_asked(judge_backward);
  EXPECT_EQ(asked, (Asked{Question::kValidation, Question::kStep, Question::kLoader,
                          Question::kWithLoader, Question::kWithoutLoader}));
  EXPECT_EQ(base::swallowed_errors().count, swallowed_);
}

TEST_F(JudgeQuestions, AnOptimizerAnswersWhatItAsks) {
  const Asked asked = ever_asked([&](const Evidence& seen, Question question) {
    return judge_optimizer(seen, {.optimizer = &optimizer_}, question);
  });
  EXPECT_EQ(asked, (Asked{Question::kValidation, Question::kOwedStep, Question::kStep,
                          Question::kLoader}));
  EXPECT_EQ(base::swallowed_errors().count, swallowed_);
}

TEST_F(JudgeQuestions, AQuestionThatNobodyAsksIsCounted) {
  EXPECT_EQ(judge_forward(nothing(), Question::kNothing).move, Move::kStay);
  EXPECT_EQ(judge_backward(nothing(), Question::kOwedStep).move, Move::kStay);
  EXPECT_EQ(judge_optimizer(nothing(), {}, Question::kWithLoader).next, Question::kNothing);
  EXPECT_EQ(base::swallowed_errors().count, swallowed_ + 3);
  EXPECT_GE(base::swallowed_errors().by_place["hooks.judge"], 3u);
}

}  // namespace
}  // namespace sonde::hook
