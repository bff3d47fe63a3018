// A training loop told without any framework, and the tree that follows from it as a line of text.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/hook/training.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::hook {

inline Here here() {
  record::ThreadState* thread = record::this_thread();
  return {*thread, *thread->lane};
}

// Like the real iterator: Training is told of the end before the pass is gone.
struct EndPass {
  void operator()(Pass* pass) const {
    Training::end_pass(record::this_thread(), std::unique_ptr<Pass>(pass));
  }
};
using Iterator = std::unique_ptr<Pass, EndPass>;

class Loader {
 public:
  Iterator iterate() { return Iterator(new Pass(here(), this, base::monotonic_ns())); }
};

inline void fetch(Pass& pass, Fetched outcome, Hint hint) {
  Training::of(here()).begin_fetch(here(), pass, hint);
  Training::of(here()).end_fetch(here(), pass, outcome);
}
inline void fetch(Pass& pass, Fetched outcome = Fetched::kItem, bool looks_like_eval = false) {
  fetch(pass, outcome, looks_like_eval ? Hint::kGradientsOff : Hint::kNone);
}
inline void end_of(Pass& pass, bool looks_like_eval = false) {
  fetch(pass, Fetched::kEnd, looks_like_eval);
}
inline void drop(Iterator pass) { pass.reset(); }

// The forwards for which use_graph is to be called if a backward goes through them.
inline std::vector<std::uint64_t> g_watched;

enum class Mode { kTrain, kEval };
// Gradients are on, unless told otherwise: the mode is only a hint.
inline void forward(const Forward& what, bool failed = false) {
  Training& training = Training::of(here());
  const auto scope = training.begin_forward(here(), what);
  if (training.end_forward(here(), scope, failed)) g_watched.push_back(scope.sequence);
}
inline void forward(Mode mode = Mode::kTrain, bool failed = false) {
  forward({.training = mode == Mode::kTrain, .owned = Owned::kYes}, failed);
}
// A forward with gradients off, of a model that an optimizer owns or (frozen) that none owns.
inline void look(Mode mode = Mode::kEval) {
  forward({.gradients = false, .training = mode == Mode::kTrain, .owned = Owned::kYes});
}
inline void frozen(bool gradients = false) {
  forward({.gradients = gradients, .training = false, .owned = Owned::kNo});
}
inline void backward() {
  Training& training = Training::of(here());
  const auto scope = training.begin_backward(here());
  for (const std::uint64_t sequence : g_watched) training.use_graph(sequence);
  g_watched.clear();
  training.end_backward(here(), scope, false);
}
// A forward whose result is thrown away.
inline void act(Mode mode = Mode::kTrain) {
  const std::size_t before = g_watched.size();
  forward(mode);
  g_watched.resize(before);
}
inline void optimize(const void* optimizer = nullptr) {
  Training& training = Training::of(here());
  training.end_optimizer(here(), training.begin_optimizer(here(), optimizer, false), true);
}
inline void train(const void* optimizer = nullptr) {
  forward();
  backward();
  optimize(optimizer);
}

// Does what a session does where it begins.
inline void begin_session(std::uint32_t steps_per_epoch) {
  record::begin_generation();
  Training::begin_session(steps_per_epoch);
}

inline void finish() { Training::finish_all(*record::this_thread()); }

class TrainingTree : public ::testing::Test {
 protected:
  void SetUp() override {
    record::open_gate();
    record::close_above(here().stack, 0, record::ClosedBy::kShutdown);  // what a test left open
    begin_session(3);
    tap_ = std::make_unique<testing::RingTap>();
  }

  // One line per span, in order of their beginning: `epoch[0](step[0](data_load forward))`.
  std::string tree() {
    if (record::ThreadState* thread = record::this_thread()) Training::settle_all(*thread);
    const model::Batch batch = tap_->take();
    std::vector<const model::Span*> spans;
    for (const model::Span& span : batch.spans) spans.push_back(&span);
    std::stable_sort(spans.begin(), spans.end(), [](const auto* a, const auto* b) {
      return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->end_ns > b->end_ns;
    });
    std::map<std::string, std::vector<const model::Span*>> children;
    std::vector<const model::Span*> roots;
    std::map<std::string, bool> known;
    const auto key = [](const base::Id& id) {
      char text[32];
      base::write_hex(id, text);
      return std::string(text, 32);
    };
    for (const auto* span : spans) known[key(span->id)] = true;
    for (const auto* span : spans) {
      if (known.contains(key(span->parent_id))) {
        children[key(span->parent_id)].push_back(span);
      } else {
        roots.push_back(span);
      }
    }
    std::function<std::string(const std::vector<const model::Span*>&)> draw =
        [&](const std::vector<const model::Span*>& list) {
          std::string out;
          for (const auto* span : list) {
            if (!out.empty()) out += ' ';
            out += span->name;
            if (span->index != model::kNone) out += "[" + std::to_string(span->index) + "]";
            if (span->attrs.find("eval") != std::string_view::npos) out += ":eval";
            if (!span->closed_by().empty()) out += "!" + std::string(span->closed_by());
            const auto& below = children[key(span->id)];
            if (!below.empty()) out += "(" + draw(below) + ")";
          }
          return out;
        };
    return draw(roots);
  }

  std::unique_ptr<testing::RingTap> tap_;
};

}  // namespace sonde::hook
