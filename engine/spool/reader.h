// Reads spool files, ours and those of the reference SDK.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/trace.h"

namespace sonde::spool {

enum class Detail {
  kAll,
  kTimings,  // only ids, names, times, pids and ranks of spans, attributes of sessions, epochs and
             // steps, and those that say how to read a span: what a summary of gigabytes needs
  kTensors,  // only snapshots, and what they say
};

// Keeps its parser and buffers between files.
class Reader {
 public:
  Reader();
  ~Reader();
  // Replaces the contents of `out`. Unknown keys are skipped; a newer schema_version is EPROTO,
  // text that is no batch EINVAL, both with the file's name. `out` is empty after an error.
  base::Status read_file(const std::string& path, model::Batch& out, Detail detail = Detail::kAll);
  base::Status read_text(std::string_view json, model::Batch& out, Detail detail = Detail::kAll);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// The spool files for DIR as a user would name it: an output directory (with spool/ inside), the
// spool directory itself, or a single file. Sorted by name, which is by time.
base::Status find_spool_files(const std::string& path, std::vector<std::string>& files);

}  // namespace sonde::spool
