#include "engine/spool/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/codec/detail.h"
#include "engine/codec/reader.h"
#include "engine/model/trace.h"
#include "engine/spool/directory.h"

namespace sonde::spool {

namespace {

base::Status load(const std::string& path, codec::PaddedText& text) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0) return base::Status::from_errno("cannot open " + path);
  if (!S_ISREG(info.st_mode)) return {EINVAL, path + " is not a regular file"};
  const auto size = static_cast<std::size_t>(info.st_size);
  char* data = text.prepare(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), data + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::Status::from_errno("cannot read " + path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.seal(done);
  return {};
}

bool is_directory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

base::Status FileReader::read(const std::string& path, model::Batch& out, codec::Detail detail) {
  out.clear();
  base::Status status = load(path, text_);
  return status.ok() ? reader_.read(text_, path, out, detail) : status;
}

base::Status find_files(const std::string& path, std::vector<std::string>& files) {
  files.clear();
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return base::Status::from_errno("cannot read " + path);
  if (!S_ISDIR(info.st_mode)) {
    files.push_back(path);
    return {};
  }
  const std::string inside = base::join_path(path, kSpoolFolder);
  const std::string directory = is_directory(inside) ? inside : path;
  base::Status status = base::list_directory(directory, ".json", files);
  for (std::string& file : files) file = base::join_path(directory, file);
  return status;
}

}  // namespace sonde::spool
