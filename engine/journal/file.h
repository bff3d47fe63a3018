// A journal file mapped by a process that does not own it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/journal/ring_reader.h"
#include "engine/record/layout.h"

namespace sonde::journal {

inline constexpr std::string_view kJournalSuffix = ".journal";

class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  base::Status open(const std::string& path, bool writable);
  View view() const;
  std::vector<record::Lane*> lanes() const;  // for a file that was opened writable
  record::Header& header() { return *reinterpret_cast<record::Header*>(memory_); }
  const record::Header& header() const { return *reinterpret_cast<const record::Header*>(memory_); }
  // Where the file is: try_lock() may have renamed it.
  const std::string& path() const { return path_; }
  bool gone() const;         // another process has removed it meanwhile
  bool owner_alive() const;  // asks without locking
  // False: the owner lives, or another process is recovering it. Where the file system has no
  // locks, the file gets the name of a journal that this process is recovering.
  bool try_lock();
  // Call if the journal could not be recovered: another process, or this one later, may then try
  // again.
  void withdraw_claim();

 private:
  base::Status check_header() const;
  bool claim();
  bool rename(std::string stem);
  std::string path_;
  base::Fd fd_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sonde::journal
