#include "engine/journal/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/record/layout.h"
#include "engine/record/layout_lock.h"

namespace sonde::journal {

using record::Header;
using record::Lane;

base::Status File::open(const std::string& path, bool writable) {
  path_ = path;
  fd_ = base::Fd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd_) return base::Status::from_errno("cannot open " + path);
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0) return base::Status::from_errno("cannot read " + path);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < record::kBlocksOffset) {
    return {EPROTO, path + " is not a journal (too short); remove it if nothing else needs it"};
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = ::mmap(nullptr, size, protection, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return base::Status::from_errno("cannot map " + path);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = size;
  return check_header();
}

base::Status File::check_header() const {
  const auto& head = *reinterpret_cast<const Header*>(memory_);
  if (std::memcmp(head.magic, record::kJournalMagic, sizeof head.magic) != 0) {
    return {EPROTO, path_ + " is not a journal; remove it if nothing else needs it"};
  }
  if (head.version != record::kJournalVersion || head.header_bytes != record::kHeaderBytes) {
    return {EPROTO, path_ + " is a journal of version " + std::to_string(head.version) +
                        " and this program reads version " +
                        std::to_string(record::kJournalVersion) +
                        "; read it with the version of sonde that wrote it"};
  }
  return {};
}

File::~File() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::vector<record::Lane*> File::lanes() const {
  std::vector<record::Lane*> found;
  for (const Lane* lane : view().lanes()) found.push_back(const_cast<Lane*>(lane));
  return found;
}

View File::view() const {
  const auto blocks =
      static_cast<std::uint32_t>((bytes_ - record::kBlocksOffset) / record::kBlockBytes);
  return {memory_, std::min(blocks, reinterpret_cast<const Header*>(memory_)->block_count.load())};
}

bool File::gone() const {
  struct stat info;
  return ::fstat(fd_.get(), &info) == 0 && info.st_nlink == 0;
}

bool File::owner_alive() const {
  struct flock lock = record::owner_lock();
  return ::fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool File::try_lock() {
  struct flock lock = record::owner_lock();
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (!record::has_no_locks(errno)) return false;
  // No locks on this file system: the best evidence left is the process table of this host.
  const Header& head = *reinterpret_cast<const Header*>(memory_);
  char host[sizeof head.host] = {};
  ::gethostname(host, sizeof host - 1);
  return std::strncmp(host, head.host, sizeof host) == 0 &&
         ::kill(static_cast<pid_t>(head.pid), 0) != 0 && errno == ESRCH;
}

}  // namespace sonde::journal
