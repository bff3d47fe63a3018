#include "engine/snapshot/blob_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/status.h"

namespace sonde::snapshot {

using base::Status;

namespace {

constexpr std::string_view kTemporary = ".tmp";
constexpr std::uint64_t kLeftFree = 64u << 20;

// The file system or a sandbox refuses the call; that says nothing about the data.
bool cannot_sync(int error) {
  return error == ENOSYS || error == EINVAL || error == ESPIPE || error == EPERM ||
         error == EOPNOTSUPP;
}

std::string link_to(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

BlobFile::~BlobFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status BlobFile::open(const std::string& directory, std::uint64_t bytes) {
  directory_ = directory;
  if (Status status = base::make_directories(directory); !status.ok()) return status;
  struct statvfs space;
  if (::statvfs(directory.c_str(), &space) == 0 && space.f_blocks != 0 &&
      std::uint64_t{space.f_bavail} * space.f_frsize < bytes + kLeftFree) {
    return {ENOSPC, "cannot write " + std::to_string(bytes) + " bytes to " + directory};
  }
  // A file without a name goes away with the process, however that ends.
  fd_.reset(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (fd_ && ::access(link_to(fd_.get()).c_str(), F_OK) == 0) return {};
  char name[32];
  base::write_hex(base::random_id(), name);
  temporary_ = base::join_path(directory, std::string_view(name, sizeof name));
  temporary_ += kTemporary;
  fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd_) {
    temporary_.clear();
    return Status::from_errno("cannot create a file in " + directory);
  }
  ::flock(fd_.get(), LOCK_EX | LOCK_NB);  // a sign of life, see clean
  return {};
}

Status BlobFile::append(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const ssize_t done = ::write(fd_.get(), piece.data(), piece.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Status::from_errno("cannot write to " + directory_);
    piece = piece.subspan(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
  // Starts to write this piece to the disk, and waits for the one before. The pages of that one are
  // given back: they are not read again, and must not push out what the host reads.
  const auto from = static_cast<off64_t>(on_disk_);
  const auto length = static_cast<off64_t>(written_ - on_disk_);
  if (Status status = sync(from, length, SYNC_FILE_RANGE_WRITE); !status.ok()) return status;
  if (from > 0) {
    constexpr unsigned kArrived =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (Status status = sync(0, from, kArrived); !status.ok()) return status;
    ::posix_fadvise(fd_.get(), 0, from, POSIX_FADV_DONTNEED);
  }
  on_disk_ = written_;
  return {};
}

// On a disk that is full or broken, a write may succeed and fail later on its way to the disk. The
// system reports that once, so each answer has to be looked at.
Status BlobFile::sync(off64_t from, off64_t length, unsigned flags) const {
  if (::sync_file_range(fd_.get(), from, length, flags) == 0 || cannot_sync(errno)) return {};
  return Status::from_errno("cannot write to " + directory_);
}

Status BlobFile::take_name(const std::string& wanted) {
  if (temporary_.empty()) {
    const int done =
        ::linkat(AT_FDCWD, link_to(fd_.get()).c_str(), AT_FDCWD, wanted.c_str(), AT_SYMLINK_FOLLOW);
    return done == 0 ? Status() : Status::from_errno("cannot create " + wanted);
  }
  int done = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, wanted.c_str(), RENAME_NOREPLACE);
  if (done != 0 && (errno == EINVAL || errno == ENOSYS) && ::access(wanted.c_str(), F_OK) != 0)
    done = ::rename(temporary_.c_str(), wanted.c_str());
  if (done != 0) return Status::from_errno("cannot create " + wanted);
  temporary_.clear();
  return {};
}

Status BlobFile::publish(std::string_view folder, std::string_view stem, std::string& path) {
  int done;
  do {
    done = ::fdatasync(fd_.get());
  } while (done != 0 && errno == EINTR);
  if (done != 0 && !cannot_sync(errno)) return Status::from_errno("cannot write to " + directory_);
  const std::string place = base::join_path(directory_, folder);
  if (Status status = base::make_directories(place); !status.ok()) return status;
  for (int n = 1;; ++n) {
    std::string name(stem);
    if (n > 1) name += "-" + std::to_string(n);
    path = base::join_path(place, name + ".safetensors");
    Status status = take_name(path);
    if (status.error() == EEXIST) continue;
    if (!status.ok()) ::rmdir(place.c_str());  // if nothing else is in it
    return status;
  }
}

void BlobFile::clean(const std::string& directory) {
  std::vector<std::string> names;
  if (!base::list_directory(directory, kTemporary, names).ok()) return;
  for (const std::string& name : names) {
    const std::string path = base::join_path(directory, name);
    const base::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat info;
    if (!file || ::fstat(file.get(), &info) != 0) continue;
    // Young ones may not have their lock yet.
    if (base::is_stale(info) && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

}  // namespace sonde::snapshot
