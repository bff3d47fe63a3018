// Finds and reads the files of a spool.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/codec/detail.h"
#include "engine/codec/reader.h"
#include "engine/model/trace.h"

namespace sonde::spool {

// Keeps its parser and buffers between files.
class FileReader {
 public:
  // Replaces the contents of `out`. What can be wrong with the text: see codec::Reader. A file that
  // cannot be opened has the error of the system.
  base::Status read(const std::string& path, model::Batch& out,
                    codec::Detail detail = codec::Detail::kAll);

 private:
  codec::Reader reader_;
  codec::PaddedText text_;
};

// The spool files for DIR as a user would name it: an output directory (with spool/ inside), the
// spool directory itself, or a single file. Sorted by name, which is by time.
base::Status find_files(const std::string& path, std::vector<std::string>& files);

}  // namespace sonde::spool
