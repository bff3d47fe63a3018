// A session in this process, and what the engine had to say meanwhile.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "engine/base/log.h"
#include "engine/session/engine.h"
#include "tests/engine/support/dead_journal.h"

namespace sonde::testing {

inline session::Options spool_to(const std::string& output_dir) {
  session::Options options;
  options.output_dir = output_dir;
  options.handle_signals = false;
  return options;
}

inline session::Engine& engine() { return session::Engine::instance(); }

inline void stop() {
  engine().begin_stop();
  engine().await_stop();
  engine().finish_stop();
}

// Stands for the GIL of a Python process: held while recording and while starting or stopping.
class HostLock {
 public:
  template <typename Body>
  auto held(Body body) {
    const std::lock_guard lock(mutex_);
    return body();
  }
  void start(session::Options options) {
    held([&] { engine().start(std::move(options)); });
  }
  void stop() {
    held([] { engine().begin_stop(); });
    engine().await_stop();
    held([] { engine().finish_stop(); });
  }

 private:
  std::mutex mutex_;
};

// Started now, stopped at the end of the block at the latest.
class RunningSession {
 public:
  explicit RunningSession(session::Options options) { engine().start(std::move(options)); }
  RunningSession(const RunningSession&) = delete;
  RunningSession& operator=(const RunningSession&) = delete;
  ~RunningSession() { stop(); }
};

inline model::Batch trace() {
  model::Batch batch;
  engine().flush();
  engine().read_trace(batch);
  return batch;
}

// Catches the engine's messages for the rest of the process.
class LogLines {
 public:
  LogLines() {
    lines().clear();
    base::set_log_handler([](base::LogLevel, std::string_view, std::string_view text) {
      const std::lock_guard lock(mutex());
      lines().emplace_back(text);
    });
  }
  static bool has(std::string_view part) { return count(part) > 0; }
  static std::size_t count(std::string_view part) {
    const std::lock_guard lock(mutex());
    std::size_t found = 0;
    for (const std::string& line : lines()) found += line.find(part) != std::string::npos;
    return found;
  }
  static std::string all() {
    const std::lock_guard lock(mutex());
    std::string text;
    for (const std::string& line : lines()) text += line + "\n";
    return text;
  }

 private:
  static std::vector<std::string>& lines() {
    static auto* all = new std::vector<std::string>;
    return *all;
  }
  static std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
  }
};

}  // namespace sonde::testing
