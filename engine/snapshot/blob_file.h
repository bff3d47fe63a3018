// A file that is written slowly in the background and appears under its name when it is whole.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/file.h"
#include "engine/base/status.h"

namespace sonde::snapshot {

class BlobFile {
 public:
  BlobFile() = default;
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;
  ~BlobFile();

  // Creates the file in `directory`, which is created if it does not exist. Fails unless `bytes`
  // and some more are free: a disk that this file fills up is full for the host's own files too.
  base::Status open(const std::string& directory, std::uint64_t bytes);
  // Sends the piece to the disk before it returns, so that there is never so much unwritten data
  // that the system holds up other writers.
  base::Status append(std::span<const std::byte> piece);
  // Names the file `<directory>/<folder>/<stem>.safetensors`, or `<stem>-2.safetensors` and so on
  // if that name is taken; `path` gets the name. Waits until the disk has all of the file: a file
  // with a name is complete, even after a loss of power.
  base::Status publish(std::string_view folder, std::string_view stem, std::string& path);

  // Removes what dead processes left in `directory`.
  static void clean(const std::string& directory);

 private:
  base::Status sync(off64_t from, off64_t length, unsigned flags) const;
  base::Status take_name(const std::string& wanted);

  base::Fd fd_;
  std::string directory_;
  std::string temporary_;  // its name where the file system has no files without one
  std::uint64_t written_ = 0;
  std::uint64_t on_disk_ = 0;
};

}  // namespace sonde::snapshot
