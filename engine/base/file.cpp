#include "engine/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace sonde::base {

void Fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Status make_directories(const std::string& path) {
  struct stat there;
  if (::stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) return {};
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0777) != 0) {
      const int error = errno;  // the reason, which stat would overwrite with its own
      struct stat info;
      // An ancestor we may not create but that exists (read-only root, automount) is not an error.
      if (::stat(part.c_str(), &info) != 0) return {error, "cannot create directory " + part};
    }
    if (end == std::string::npos) break;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Status::from_errno("cannot use directory " + path);
  if (!S_ISDIR(info.st_mode)) return {ENOTDIR, "cannot use " + path};
  return {};
}

namespace {

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Status::from_errno("cannot write " + path);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Status write_atomically(const std::string& path, std::span<const std::string_view> parts) {
  const std::string temporary = path + ".tmp";
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return Status::from_errno("cannot create " + temporary);
  Status status;
  for (const std::string_view part : parts) {
    status = write_all(fd.get(), part, temporary);
    if (!status.ok()) break;
  }
  if (status.ok() && ::close(fd.release()) != 0)
    status = Status::from_errno("cannot close " + temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::from_errno("cannot rename " + temporary);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status read_file(const std::string& path, std::string& out) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Status::from_errno("cannot open " + path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno("cannot read " + path);
  out.resize(static_cast<std::size_t>(info.st_size) +
             1);  // one more, so that the end is seen without growing
  std::size_t done = 0;
  for (;;) {
    if (done == out.size()) out.resize(out.size() + 4096);
    const ssize_t got = ::read(fd.get(), out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno("cannot read " + path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  out.resize(done);
  return {};
}

std::string absolute_path(const std::string& path) {
  if (!path.empty() && path.front() == '/') return path;
  char buffer[PATH_MAX];
  if (::getcwd(buffer, sizeof buffer) == nullptr) return path;
  return join_path(buffer, path);
}

bool is_stale(const struct stat& info) noexcept {
  constexpr std::int64_t kStaleSeconds = 600;
  return wall_clock_ns() / 1'000'000'000 - info.st_mtim.tv_sec > kStaleSeconds;
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  while (name.starts_with("./")) name.remove_prefix(2);
  path += name;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status list_directory(const std::string& path, std::string_view suffix,
                      std::vector<std::string>& out) {
  out.clear();
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return errno == ENOENT ? Status() : Status::from_errno("cannot list " + path);
  }
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(suffix) && name != "." && name != "..") out.emplace_back(name);
  }
  ::closedir(directory);
  std::sort(out.begin(), out.end());
  return {};
}

}  // namespace sonde::base
