// Files the way the rest of the engine needs them: whole, or not there at all.
#pragma once

#include <sys/stat.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace sonde::base {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

// mkdir -p.
Status make_directories(const std::string& path);

// Writes `<path>.tmp`, then renames it over `path`: a reader sees all of it or nothing. No fsync:
// power loss is out of scope, and an fsync can stall a shared disk for seconds. Nothing is left on
// failure.
Status write_atomically(const std::string& path, std::span<const std::string_view> parts);

// Whether a temporary file was last written so long ago that no process can still be writing it.
bool is_stale(const struct stat& info) noexcept;

Status read_file(const std::string& path, std::string& out);

std::string absolute_path(const std::string& path);
std::string join_path(std::string_view directory, std::string_view name);

// File names in a directory that end in `suffix`, sorted. A directory that is not there is empty.
Status list_directory(const std::string& path, std::string_view suffix,
                      std::vector<std::string>& out);

}  // namespace sonde::base
