#include "engine/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sonde::base {
namespace {

std::vector<std::string> g_spoken;

class Log : public testing::Test {
 protected:
  void SetUp() override {
    g_spoken.clear();
    reset_log();
    set_log_handler([](LogLevel level, std::string_view logger, std::string_view text) {
      g_spoken.push_back(std::string(level == LogLevel::kWarning ? "W " : "I ") +
                         std::string(logger) + " " + std::string(text));
    });
  }
  void TearDown() override {
    set_log_handler(nullptr);
    reset_log();
  }
};

TEST_F(Log, AKeyIsSpokenOnce) {
  log_once(LogLevel::kWarning, "flush", "disk", "disk full");
  log_once(LogLevel::kWarning, "flush", "disk", "disk full again");
  log_once(LogLevel::kInfo, "profiler", "other", "hello");
  EXPECT_EQ(g_spoken,
            (std::vector<std::string>{"W sonde.flush disk full", "I sonde.profiler hello"}));
}

TEST_F(Log, ANewSessionSpeaksAgain) {
  log_once(LogLevel::kWarning, "a", "k", "first");
  reset_log();
  log_once(LogLevel::kWarning, "a", "k", "second");
  EXPECT_EQ(g_spoken.size(), 2u);
}

TEST_F(Log, WithoutAHandlerItGoesToStandardError) {
  set_log_handler(nullptr);
  testing::internal::CaptureStderr();
  log_once(LogLevel::kWarning, "a", "k", "no space left; free some");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[sonde] no space left; free some\n");
}

}  // namespace
}  // namespace sonde::base
