// sonde tail DIR: the spans of running processes as they close, read from outside.
#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/cli/command.h"
#include "engine/cli/follower.h"
#include "engine/cli/locate.h"
#include "engine/cli/output.h"
#include "engine/cli/process_state.h"
#include "engine/report/autopsy.h"
#include "engine/report/times.h"
#include "engine/spool/journal.h"

namespace sonde::cli {

namespace {

struct TailOptions {
  std::string directory = ".cirron";
  bool once = false;
  double interval_s = 0.5;
  std::size_t lines = 10;
  std::string name;
  std::string level;  // empty: steps, or all where a name is given
};

volatile sig_atomic_t g_interrupted = 0;

void watch_for_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted = 1; };
  ::sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: it has to end the sleep
  ::sigaction(SIGTERM, &action, nullptr);
}

void sleep_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  ::nanosleep(&time, nullptr);
}

int nothing_running(const std::string& directory) {
  complain("no process is running in " + directory +
           "; start the run first, or see what is recorded with: sonde trace " + directory);
  return 1;
}

// The open scopes of every running process.
int show_open(const Place& place, const TailOptions& options) {
  report::Autopsy state;
  state.now_ns = base::wall_clock_ns();
  std::deque<spool::JournalReport> journals;  // the state points into them
  for (const std::string& path : place.journals) {
    spool::JournalReport& journal = journals.emplace_back();
    const base::Status status = spool::inspect_journal(path, journal);
    if (!status.ok() && status.error() != ENOENT) complain(status.text());
    if (!status.ok() || !journal.alive) continue;
    report::ProcessState& process = state.processes.emplace_back(process_state(journal));
    process.last_spans.clear();
    process.last_marks.clear();
  }
  if (state.processes.empty()) return nothing_running(options.directory);
  print(report::autopsy_text(state));
  return 0;
}

std::string farewell(const Follower::Process& process, const std::string& directory) {
  std::string line = fmt::format("[cirron] pid {} (rank {}) ", process.pid, process.rank);
  return line + (process.died ? "died; see what was open with: sonde autopsy " + directory + "\n"
                              : "ended\n");
}

std::string greeting(const Follower::Process& process) {
  return fmt::format("[cirron] pid {} (rank {}) has been running for {}\n", process.pid,
                     process.rank, report::long_duration(process.age_ns));
}

model::LineFilter filter_of(const TailOptions& options) {
  const model::Level usual = options.name.empty() ? model::Level::kStep : model::Level::kAll;
  return {model::level_called(options.level).value_or(usual), options.name};
}

int follow(Place place, const TailOptions& options) {
  Follower follower(std::move(place), options.lines, filter_of(options));
  std::set<std::string> greeted, gone;
  for (;;) {
    const std::vector<std::string> lines = follower.poll();
    for (const auto& [journal, process] : follower.processes()) {
      if (greeted.insert(journal).second) print(greeting(process));
    }
    for (const std::string& line : lines) {
      if (!print(line)) return 0;
    }
    if (follower.processes().empty()) return nothing_running(options.directory);
    for (const auto& [journal, process] : follower.processes()) {
      if (!process.running && gone.insert(journal).second)
        print(farewell(process, options.directory));
    }
    if (follower.running() == 0 || g_interrupted != 0) return 0;
    sleep_for(options.interval_s);
    if (g_interrupted != 0) return 0;
  }
}

int run(const TailOptions& options) {
  Place place;
  if (!locate_or_complain(options.directory, place)) return 1;
  if (options.once) return show_open(place, options);
  watch_for_interrupt();
  return follow(std::move(place), options);
}

}  // namespace

Run declare_tail(CLI::App& app) {
  const auto options = std::make_shared<TailOptions>();
  app.add_option("DIR", options->directory, "Output directory of a run")->capture_default_str();
  app.add_flag("--once", options->once, "Print the scopes that are open now and end");
  app.add_option("-n,--lines", options->lines, "Spans that closed before, to begin with")
      ->capture_default_str();
  app.add_option("--name", options->name, "Only spans whose name fits, as 'val*'; on every level");
  app.add_option("--level", options->level,
                 "epoch: epochs, validations and what is outside of them; step: steps and batches "
                 "too (the default); all: every span")
      ->check(CLI::IsMember({"epoch", "step", "all"}));
  app.add_option("--interval", options->interval_s, "Seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  return [options] { return run(*options); };
}

}  // namespace sonde::cli
