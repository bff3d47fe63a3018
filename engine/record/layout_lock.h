// The lock that says whether the owner of a journal lives. The owner holds it, readers ask whether
// it is held, and a process that recovers a dead journal takes it. It is a lock of the open file
// description: the kernel drops it when the process is gone, however it ended, and (unlike a pid)
// it means the same in every container that sees the file. docs/formats/journal.md names the byte.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdio>  // SEEK_SET

namespace sonde::record {

// For fcntl with F_OFD_SETLK or F_OFD_GETLK: exclusive, on byte 0.
inline struct flock owner_lock() noexcept {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  return lock;
}

// What fcntl says on a file system without locks, as some network mounts are. Any other error means
// that another process holds the lock.
inline bool has_no_locks(int error) noexcept {
  return error == ENOLCK || error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
}

}  // namespace sonde::record
