// The spool directory of one output directory: names, writing, the size cap.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/id.h"
#include "engine/base/status.h"

namespace sonde::spool {

inline constexpr std::string_view kSpoolFolder = "spool";  // in an output directory

// `<20-digit ns>-<32 hex>.json`: the order of names is the order of time.
std::string batch_file_name(std::int64_t created_ns, const base::Id& batch_id);
// The time in the name of a batch file, with or without its folder; nothing for any other name.
std::optional<std::int64_t> created_ns_of(std::string_view path) noexcept;

// Used by one thread at a time; any thread may read the counters.
class Directory {
 public:
  Directory(std::string output_dir, std::uint64_t max_bytes);
  ~Directory();

  const std::string& path() const noexcept { return path_; }

  // Writes one batch file, creating the directory if it is gone, then removes the oldest files
  // beyond the cap, never the one just written. Looks at no other file.
  base::Status write(std::int64_t created_ns, const base::Id& batch_id, std::string_view json);
  bool contains(std::int64_t created_ns, const base::Id& batch_id) const;

  // Lists the files that are there already, a few hundred per call so that a flush never waits for
  // a long listing. True when the listing is complete for now.
  bool scan_some();

  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t evicted() const noexcept { return evicted_.load(std::memory_order_relaxed); }

 private:
  struct Scan;
  void note(const std::string& name, std::uint64_t size);
  void evict(const std::string& keep);
  void finish_scan();

  std::string path_;
  std::uint64_t max_bytes_;
  std::map<std::string, std::uint64_t> files_;
  std::unique_ptr<Scan> scan_;
  std::uint64_t next_scan_ns_ = 0;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> evicted_{0};
};

}  // namespace sonde::spool
