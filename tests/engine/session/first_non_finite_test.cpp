#include "engine/session/first_non_finite.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/captures.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using snapshot::Capture;
using testing::capture_of;
using testing::capture_with_nan;
using testing::count_in;
using testing::engine;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::RunningSession;
using testing::slow_flush;
using testing::snapshots_in;
using testing::stop;
using testing::Switch;
using testing::TempDir;

TEST(FirstNonFinite, IsSaidOnceAndMarked) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    std::vector<std::string> lines;
    Options options = slow_flush(dir.path());
    options.lines.push_back({"log", {}, [&](const std::vector<std::string>& some) {
                               lines.insert(lines.end(), some.begin(), some.end());
                             }});
    engine().start(options);
    const record::ScopeHandle epoch =
        testing::open("epoch", {.index = 7, .flags = record::kHasIndex});
    testing::close(epoch);
    engine().flush();
    const base::Id span = testing::trace().spans.at(0).id;
    Capture bad = capture_with_nan("layer3.weight.grad");
    bad.span_id = span;
    bad.epoch = 7;
    bad.step = 3120;
    engine().add_capture(capture_of(4));
    engine().add_capture(std::move(bad));
    engine().add_capture(capture_with_nan("later"));
    engine().flush();
    const std::string text = "first non-finite value: layer3.weight.grad1 at epoch[7] step[3120]";
    EXPECT_EQ(LogLines::all(), text + "\n");
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "[sonde] " + text), 1);

    const auto spool = read_spool(dir.path());
    ASSERT_EQ(spool.marks.size(), 1u);
    EXPECT_EQ(spool.marks[0].name, "first_non_finite");
    EXPECT_EQ(spool.marks[0].text, "layer3.weight.grad1");
    EXPECT_EQ(spool.marks[0].attrs, R"("epoch":7,"step":3120)");
    EXPECT_EQ(spool.marks[0].span_id, span);
    EXPECT_FALSE(spool.marks[0].summary);
    const model::Batch shown = testing::trace();
    ASSERT_EQ(shown.marks.size(), 1u) << "on a span that was closed before";
    EXPECT_EQ(shown.marks[0].span_id, span);
    EXPECT_EQ(shown.marks[0].text, "layer3.weight.grad1");

    stop();
    engine().start(options);
    engine().add_capture(capture_with_nan("again"));
    stop();
    EXPECT_TRUE(LogLines::all().ends_with("first non-finite value: again1\n"))
        << "what is not known is left out\n"
        << LogLines::all();
  });
}

TEST(FirstNonFinite, GradientsDoNotUseUpTheWordOnWeights) {
  in_child([] {
    using snapshot::Kind;
    LogLines log;
    Options options;
    options.handle_signals = false;
    engine().start(options);
    const auto add = [](const char* name, Kind kind, std::uint64_t span) {
      Capture bad = capture_with_nan(name);
      bad.kind = kind;
      bad.span_id = {0, span};
      engine().add_capture(std::move(bad), nullptr, true);
    };
    add("spoilt by a", Kind::kWeights, 1);
    add("a", Kind::kGradients, 1);
    engine().flush();
    EXPECT_EQ(LogLines::all(), "first non-finite value: a1\n") << "the cause";
    stop();
    engine().start(options);
    add("b", Kind::kGradients, 2);
    add("c", Kind::kWeights, 3);
    add("d", Kind::kWeights, 4);
    engine().flush();
    EXPECT_EQ(LogLines::count("c1"), 1u);
    EXPECT_EQ(LogLines::count("d1"), 0u);
    stop();
  });
}

TEST(FirstNonFinite, OnAnOpenSpan) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    const RunningSession session(options);
    const record::ScopeHandle epoch = testing::open("epoch");
    Capture bad = capture_with_nan("w");
    bad.span_id = testing::trace().spans.back().id;
    engine().add_capture(std::move(bad));
    engine().flush();
    EXPECT_EQ(testing::trace().marks.size(), 1u);
    testing::close(epoch);
    const model::Batch shown = testing::trace();
    ASSERT_EQ(shown.marks.size(), 1u);
    EXPECT_EQ(shown.marks[0].name, "first_non_finite");
  });
}

// A blob takes its time; what is wrong with the weights does not wait for it.
TEST(FirstNonFinite, DoesNotWaitForTheBlob) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    Capture bad = capture_with_nan("w");
    const auto on = std::make_shared<std::atomic<bool>>(false);
    bad.blob = std::make_unique<Switch>(on);
    engine().add_capture(std::move(bad));
    engine().flush();
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.marks.size(), 1u);
    EXPECT_EQ(snapshots_in(spool).size(), 0u);
    on->store(true);
    engine().flush();
    EXPECT_EQ(count_in(dir.path()), 3u);
  });
}

}  // namespace
}  // namespace sonde::session
