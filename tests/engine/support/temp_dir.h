// A directory that goes away with the test, and small file systems of a chosen size.
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sonde::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = ::testing::TempDir() + "sonde-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Mounts a file system that holds no more than this on the directory; false where the
  // machine does not let us (no root, no mount in this sandbox).
  bool mount_small(std::size_t bytes) {
    const std::string options = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    return mounted_;
  }
  bool remount_read_only() const {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

// Fills the file system under `directory` to its last byte; removing the file makes room again.
inline std::string fill_up(const std::string& directory) {
  const std::string path = directory + "/ballast";
  std::ofstream out(path, std::ios::binary);
  const std::string chunk(4096, 'x');
  while (out.write(chunk.data(), static_cast<std::streamsize>(chunk.size())).flush()) {
  }
  return path;
}

inline std::vector<std::string> files_in(const std::string& directory,
                                         const std::string& suffix = "") {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (entry.path().string().ends_with(suffix)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace sonde::testing
