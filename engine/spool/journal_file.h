// A journal file mapped by somebody who does not own it.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/spool/journal.h"
#include "engine/spool/ring_reader.h"

namespace sonde::spool {

class JournalFile {
 public:
  JournalFile() = default;
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;
  ~JournalFile();
  base::Status open(const std::string& path, bool writable);
  JournalView view() const;
  std::vector<record::Lane*> lanes() const;  // to write to: opened writable
  record::Header& header() { return *reinterpret_cast<record::Header*>(memory_); }
  bool gone() const;         // another process has removed it meanwhile
  bool owner_alive() const;  // asks without locking
  bool try_lock();           // false: the owner lives, or another process is recovering it

 private:
  base::Status check_header() const;
  std::string path_;
  base::Fd fd_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// Adds the open scopes of a journal to the report, the session first.
void collect_open(const JournalView& view, const RingReader& reader, JournalReport& out);
// Fills in who wrote it and when.
void describe(const JournalView& view, JournalReport& out);

}  // namespace sonde::spool
