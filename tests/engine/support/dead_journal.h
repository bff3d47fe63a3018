// Journals as a killed process leaves them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/journal/inspect.h"
#include "engine/record/journal.h"
#include "engine/spool/reader.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::testing {

// Puts this process's journal onto a file, as a session does.
inline void attach_journal(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  record::close_gate();
  record::Journal::instance().begin_session({.rank = 1, .local_rank = 1, .world_size = 2});
  const base::Status status = record::Journal::instance().attach_file(path);
  EXPECT_TRUE(status.ok()) << status.text();
  record::open_gate();
}

// A child records `body` into `<output_dir>/live/<name>.journal` and is killed. The path of what it
// leaves.
inline std::string leave_journal(const std::string& output_dir, const std::function<void()>& body,
                                 const std::string& name = "dead") {
  const std::string path = output_dir + "/live/" + name + ".journal";
  Child child([&](const Child::Say& say) {
    attach_journal(path);
    body();
    say();
    sleep_for_ever();
  });
  EXPECT_TRUE(child.heard());
  child.kill_and_wait();
  return path;
}

// Everything in the spool of `output_dir`, file after file.
struct SpoolContents {
  std::vector<std::unique_ptr<model::Batch>> batches;  // texts lie in there
  std::vector<model::Span> spans;
  std::vector<model::Mark> marks;
};

inline SpoolContents read_spool(const std::string& output_dir) {
  SpoolContents all;
  spool::FileReader reader;
  for (const std::string& path : files_in(output_dir + "/spool", ".json")) {
    auto batch = std::make_unique<model::Batch>();
    const base::Status status = reader.read(path, *batch);
    EXPECT_TRUE(status.ok()) << status.text();
    all.spans.insert(all.spans.end(), batch->spans.begin(), batch->spans.end());
    all.marks.insert(all.marks.end(), batch->marks.begin(), batch->marks.end());
    all.batches.push_back(std::move(batch));
  }
  return all;
}

}  // namespace sonde::testing
