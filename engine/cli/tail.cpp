// sonde tail DIR: the spans of running processes as they close, read from outside.
#include <CLI/CLI.hpp>

#include <signal.h>
#include <time.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/cli/command.h"
#include "engine/cli/opening.h"
#include "engine/cli/output.h"
#include "engine/model/level.h"
#include "engine/model/live.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/report/autopsy.h"
#include "engine/report/live.h"
#include "engine/run/autopsy.h"
#include "engine/run/follower.h"
#include "engine/run/source.h"

namespace sonde::cli {

namespace {

struct TailOptions {
  std::string directory;
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

int nothing_running(const run::Source& source) {
  complain(report::nothing_running_line(source.called()));
  return 1;
}

// The open scopes of every running process.
int show_open(run::Source& source) {
  const model::RunningProcesses running = run::running_processes(source);
  for (const std::string& problem : running.problems) complain(problem);
  if (running.processes.empty()) return nothing_running(source);
  print(report::running_text(running));
  return 0;
}

int follow(run::Source& source, const TailOptions& options) {
  const model::LineFilter filter = model::line_filter(options.level, options.name);
  run::Follower follower(source,
                         {options.lines, [&](const model::Span& span, const model::Place& place) {
                            return filter.shows(span.name, place);
                          }});
  report::LiveLines lines(filter, source.called());
  for (;;) {
    const model::Look look = follower.look();
    for (const std::string& problem : look.problems) complain(problem);
    if (!print(lines.draw(look))) return 0;
    if (look.gone) {
      complain(report::directory_gone_line(source.called()));
      return 1;
    }
    if (!follower.has_seen_any()) return nothing_running(source);
    if (follower.running() == 0 || g_interrupted != 0) return 0;
    sleep_for(options.interval_s);
    if (g_interrupted != 0) return 0;
  }
}

int run_tail(const TailOptions& options) {
  const std::unique_ptr<run::Source> source = open_run(options.directory);
  if (!source) return 1;
  if (options.once) return show_open(*source);
  watch_for_interrupt();
  return follow(*source, options);
}

}  // namespace

Run declare_tail(CLI::App& app) {
  const auto options = std::make_shared<TailOptions>();
  add_directory(app, options->directory, kDirectory);
  app.add_flag("--once", options->once, "Print the scopes that are open now and exit");
  app.add_option("-n,--lines", options->lines, "How many already closed spans to show first")
      ->capture_default_str();
  app.add_option("--name", options->name,
                 "Only spans whose name matches, such as 'val*'; at every level");
  app.add_option("--level", options->level,
                 "epoch: epochs, validations and everything outside them; step (the default): "
                 "steps and batches too; all: every span")
      ->check(CLI::IsMember(
          std::vector<std::string>(model::kLevelNames.begin(), model::kLevelNames.end())));
  app.add_option("--interval", options->interval_s, "Seconds between updates")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  return [options] { return run_tail(*options); };
}

}  // namespace sonde::cli
