// What a session says of itself while it runs, and after it was killed.
#include "engine/session/attributes.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/spool/recovery.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::find_span;
using testing::in_child;
using testing::read_spool;
using testing::RunningSession;
using testing::spool_to;
using testing::SpoolContents;
using testing::TempDir;

std::string session_attrs(const std::vector<model::Span>& spans) {
  const model::Span* session = find_span(spans, "sonde.session");
  return session == nullptr ? "no session" : std::string(session->attrs);
}

TEST(Attributes, AreThoseOfTheSpan) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.attrs = R"("pid":1)";
    engine().annotate({{"too", "\"early\""}});
    {
      const RunningSession session(options);
      engine().annotate({{"device", "\"cpu\""}, {"count", "0"}});
      EXPECT_EQ(session_attrs(testing::trace().spans), R"("device":"cpu","count":0,"pid":1)");
      engine().annotate({{"device", "\"cuda\""}});
      EXPECT_EQ(session_attrs(testing::trace().spans), R"("device":"cuda","count":0,"pid":1)");
    }
    EXPECT_EQ(session_attrs(read_spool(dir.path()).spans), R"("device":"cuda","count":0,"pid":1)");
    engine().annotate({{"too", "\"late\""}});
    const RunningSession next(options);
    EXPECT_EQ(session_attrs(testing::trace().spans), R"("pid":1)");
  });
}

TEST(Attributes, AnyNameLeavesTheBatchReadable) {
  const TempDir dir;
  in_child([&] {
    {
      const RunningSession session(spool_to(dir.path()));
      engine().annotate({{"a \"name\"\\", "1"}});
    }
    EXPECT_EQ(session_attrs(read_spool(dir.path()).spans), R"("a \"name\"\\":1)");
  });
}

TEST(Attributes, AnIdThatFindsNoRoomIsLeftOutAloneAndThatIsSaid) {
  const TempDir dir;
  in_child([&] {
    const testing::LogLines log;
    Options options = spool_to(dir.path());
    options.attrs = R"("pid":1,"run_id":")" + std::string(3000, 'x') + R"(","host":"{a, \"b\"}")";
    {
      const RunningSession session(options);
      EXPECT_EQ(engine().counters().swallowed.by_place.at("session"), 1u);
    }
    const SpoolContents spool = read_spool(dir.path());
    EXPECT_EQ(session_attrs(spool.spans), R"("pid":1,"host":"{a, \"b\"}")");
    EXPECT_TRUE(find_span(spool.spans, "sonde.session")->is_session());
    EXPECT_EQ(testing::LogLines::count("1 attributes of the session are left out"), 1u)
        << testing::LogLines::all();
  });
}

TEST(Attributes, WhatFindsNoRoomIsLeftOutTheLongestFirst) {
  in_child([] {
    const RunningSession session(spool_to(""));
    engine().annotate({{"a", "1"}, {"long", '"' + std::string(2000, 'x') + '"'}, {"b", "2"}});
    EXPECT_EQ(session_attrs(testing::trace().spans), R"("a":1,"b":2)");
    engine().annotate({{"long", "3"}});
    EXPECT_EQ(session_attrs(testing::trace().spans), R"("a":1,"long":3,"b":2)");
  });
}

// Changed as fast as possible, and killed: the attributes are those of one moment.
TEST(Attributes, OfAKilledProcessAreOldOrNew) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const TempDir dir;
    Child child([&](const Child::Say& say) {
      engine().start(spool_to(dir.path()));
      say();
      for (int i = 0;; ++i) {
        const std::string number = std::to_string(i % 5000);
        engine().annotate({{"a", number}, {"b", number}});
      }
    });
    ASSERT_TRUE(child.heard());
    ::usleep(static_cast<useconds_t>(1000 * attempt));
    child.kill_and_wait();
    spool::recover_directory(dir.path());
    const SpoolContents spool = read_spool(dir.path());
    const model::Span* session = find_span(spool.spans, "sonde.session");
    ASSERT_NE(session, nullptr);
    const std::string attrs(session->attrs);
    const std::size_t a = attrs.find("\"a\":"), b = attrs.find(",\"b\":"), end = attrs.find(",\"s");
    if (a == std::string::npos) continue;  // killed before the first
    ASSERT_NE(b, std::string::npos) << attrs;
    EXPECT_EQ(attrs.substr(a + 4, b - a - 4), attrs.substr(b + 5, end - b - 5));
  }
}

TEST(Attributes, FromSeveralThreads) {
  in_child([] {
    const RunningSession session(spool_to(""));
    std::vector<std::thread> threads;
    for (const char* name : {"a", "b", "c"}) {
      threads.emplace_back([name] {
        for (int i = 0; i <= 500; ++i) engine().annotate({{name, std::to_string(i)}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::string attrs = session_attrs(testing::trace().spans);
    for (const char* member : {"\"a\":500", "\"b\":500", "\"c\":500"})
      EXPECT_NE(attrs.find(member), std::string::npos) << attrs;
  });
}

}  // namespace
}  // namespace sonde::session
