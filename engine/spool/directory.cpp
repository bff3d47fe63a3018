#include "engine/spool/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/status.h"

namespace sonde::spool {

namespace {

constexpr int kDigits = 20;  // of the time in a name
constexpr int kScanStep = 256;
constexpr std::uint64_t kRescanNs = 300'000'000'000;  // other processes may share the directory

}  // namespace

std::string batch_file_name(std::int64_t created_ns, const base::Id& batch_id) {
  char name[64];
  const int digits =
      std::snprintf(name, sizeof name, "%0*lld-", kDigits, static_cast<long long>(created_ns));
  base::write_hex(batch_id, name + digits);
  return std::string(name, static_cast<std::size_t>(digits) + 32) + ".json";
}

std::optional<std::int64_t> created_ns_of(std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::string_view digits = name.substr(0, kDigits);
  const char* const end = digits.data() + digits.size();
  std::int64_t created = 0;
  const auto result = std::from_chars(digits.data(), end, created);
  if (digits.size() != kDigits || result.ec != std::errc() || result.ptr != end) return {};
  return created;
}

struct Directory::Scan {
  DIR* directory = nullptr;
  std::map<std::string, std::uint64_t> found;
  ~Scan() {
    if (directory != nullptr) ::closedir(directory);
  }
};

Directory::Directory(std::string output_dir, std::uint64_t max_bytes)
    : path_(base::join_path(output_dir, kSpoolFolder)), max_bytes_(max_bytes) {}

Directory::~Directory() = default;

void Directory::note(const std::string& name, std::uint64_t size) {
  std::uint64_t& known = files_[name];
  bytes_.fetch_add(size - known, std::memory_order_relaxed);
  known = size;
}

base::Status Directory::write(std::int64_t created_ns, const base::Id& batch_id,
                              std::string_view json) {
  const std::string name = batch_file_name(created_ns, batch_id);
  const std::string path = base::join_path(path_, name);
  const std::string_view parts[] = {json};
  base::Status status = base::write_atomically(path, parts);
  if (status.error() == ENOENT) {
    status = base::make_directories(path_);
    if (status.ok()) status = base::write_atomically(path, parts);
  }
  if (!status.ok()) return status;
  note(name, json.size());
  evict(name);
  return status;
}

bool Directory::contains(std::int64_t created_ns, const base::Id& batch_id) const {
  return ::access(base::join_path(path_, batch_file_name(created_ns, batch_id)).c_str(), F_OK) == 0;
}

void Directory::evict(const std::string& keep) {
  while (bytes() > max_bytes_ && !files_.empty() && files_.begin()->first != keep) {
    const auto oldest = files_.begin();
    const std::string path = base::join_path(path_, oldest->first);
    // A file that is gone was evicted by another process, or moved away: it is not counted here.
    if (::unlink(path.c_str()) == 0) {
      evicted_.fetch_add(1, std::memory_order_relaxed);
      base::log_once(base::LogLevel::kWarning, "flush", "spool-cap",
                     "the spool in " + path_ + " is over its cap of " + std::to_string(max_bytes_) +
                         " bytes: the oldest files are removed");
    }
    bytes_.fetch_sub(oldest->second, std::memory_order_relaxed);
    files_.erase(oldest);
  }
}

bool Directory::scan_some() {
  if (!scan_) {
    if (base::monotonic_ns() < next_scan_ns_) return true;
    scan_ = std::make_unique<Scan>();
    scan_->directory = ::opendir(path_.c_str());
    if (scan_->directory == nullptr) {
      finish_scan();
      return true;
    }
  }
  for (int i = 0; i < kScanStep; ++i) {
    const dirent* entry = ::readdir(scan_->directory);
    if (entry == nullptr) {
      finish_scan();
      return true;
    }
    const std::string_view name = entry->d_name;
    const bool temporary = name.ends_with(".json.tmp");
    if (!temporary && !name.ends_with(".json")) continue;
    struct stat info;
    if (::fstatat(::dirfd(scan_->directory), entry->d_name, &info, 0) != 0) continue;
    if (!temporary) {
      scan_->found.emplace(name, static_cast<std::uint64_t>(info.st_size));
    } else if (base::is_stale(info)) {
      ::unlinkat(::dirfd(scan_->directory), entry->d_name, 0);
    }
  }
  return false;
}

void Directory::finish_scan() {
  // Files written during the listing may be missing from it; files removed must not come back.
  for (const auto& [name, size] : files_) {
    if (scan_->found.empty() || name > scan_->found.rbegin()->first)
      scan_->found.emplace(name, size);
  }
  std::uint64_t total = 0;
  for (const auto& [name, size] : scan_->found) total += size;
  files_ = std::move(scan_->found);
  bytes_.store(total, std::memory_order_relaxed);
  scan_.reset();
  next_scan_ns_ = base::monotonic_ns() + kRescanNs;
  if (!files_.empty()) evict(files_.rbegin()->first);
}

}  // namespace sonde::spool
