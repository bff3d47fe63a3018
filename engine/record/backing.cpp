#include "engine/record/backing.h"

#include <fcntl.h>
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
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/placement.h"
#include "engine/base/status.h"
#include "engine/record/addresses.h"
#include "engine/record/block_pool.h"
#include "engine/record/bus_guard.h"
#include "engine/record/layout.h"
#include "engine/record/layout_lock.h"
#include "engine/record/names.h"
#include "engine/record/racy.h"

namespace sonde::record {

namespace detail {
SONDE_HOT_DATA std::byte* g_base = nullptr;
}

namespace {

constexpr std::size_t kRangeBytes = bytes_for(kMaxBlocks);

void* map_memory(void* at, std::size_t bytes) noexcept {
  const int fixed = at != nullptr ? MAP_FIXED : 0;
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

void map_memory_from(std::size_t offset) noexcept {
  map_memory(detail::g_base + offset, kRangeBytes - offset);
}

// A file system without locks leaves the journal unprotected but usable.
base::Status lock_file(int fd, const std::string& path) {
  struct flock lock = owner_lock();
  if (::fcntl(fd, F_OFD_SETLK, &lock) != 0 && !has_no_locks(errno))
    return base::Status::from_errno("cannot lock " + path);
  return {};
}

// Real blocks on the disk, not a hole: a hole would turn a full disk into SIGBUS at the first
// store.
base::Status allocate(int fd, std::size_t from, std::size_t to, const std::string& path) {
  int refused = 0;
  do {
    refused = ::fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(to - from));
  } while (refused != 0 && errno == EINTR);
  if (refused == 0) return {};
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    return base::Status::from_errno("cannot allocate " + path);
  }
  const std::vector<char> zeros(64 * 1024);
  for (std::size_t at = from; at < to;) {
    const ssize_t done =
        ::pwrite(fd, zeros.data(), std::min(zeros.size(), to - at), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = ENOSPC;  // nothing was written, and the call does not say why
    if (done <= 0) return base::Status::from_errno("cannot allocate " + path);
    at += static_cast<std::size_t>(done);
  }
  return {};
}

// New blocks read as zeros, so reading ahead is useless: touching one page would bring in megabytes
// of zeroed pages.
void expect_no_reading(void* from, std::size_t bytes) { ::madvise(from, bytes, MADV_RANDOM); }

void populate(std::byte* from, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(from, bytes, MADV_POPULATE_WRITE);
#else
  (void)from;
  (void)bytes;
#endif
}

// Header, names and every block that is in use.
void copy_used(std::byte* to, const BlockPool& used) noexcept {
  std::memcpy(to, detail::g_base, kNamesOffset + journal_header().names_used.load());
  const std::uint32_t blocks = used.fresh();
  for (std::uint32_t i = 1; i < blocks; ++i) {
    if (block_at(i).type.load() == BlockType::kFree) continue;
    detail::quiet_copy(bytes_of_block(i), to + bytes_for(i), kBlockBytes);
  }
}

}  // namespace

// A file on its way to become the journal: mapped elsewhere, and under a temporary name.
struct Backing::NewFile {
  const std::string path, temporary = path + ".tmp";
  const std::uint32_t blocks;
  const std::size_t bytes = bytes_for(blocks);
  base::Fd fd{};
  std::byte* memory = nullptr;
};

Backing::Backing() : warmed_(kMaxBlocks) {
  void* range = map_memory(nullptr, kRangeBytes);
  if (range == MAP_FAILED) throw std::bad_alloc();
  detail::g_base = static_cast<std::byte*>(range);
}

base::Status Backing::make_file(NewFile& file) {
  if (base::Status status = lock_file(file.fd.get(), file.temporary); !status.ok()) return status;
  if (base::Status status = allocate(file.fd.get(), 0, file.bytes, file.temporary); !status.ok())
    return status;
  void* mapped = ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (mapped == MAP_FAILED) return base::Status::from_errno("cannot map " + file.temporary);
  expect_no_reading(mapped, file.bytes);
  file.memory = static_cast<std::byte*>(mapped);
  return {};
}

// Where this fails, the new file stays mapped at its own address.
base::Status Backing::move_onto(NewFile& file, const BlockPool& used) {
  const std::scoped_lock standstill(mutex_, detail::names_mutex());
  journal_header().block_count.store(file.blocks);
  copy_used(file.memory, used);
  // Only now does the file get its name: a reader that finds it finds a complete, locked journal.
  if (::rename(file.temporary.c_str(), file.path.c_str()) != 0) {
    journal_header().block_count.store(0);
    return base::Status::from_errno("cannot rename " + file.temporary);
  }
  install_bus_guard(detail::g_base, kRangeBytes, file.fd.get());
  if (::mremap(file.memory, file.bytes, file.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
               detail::g_base) == MAP_FAILED) {
    base::Status status = base::Status::from_errno("cannot map " + file.path);
    journal_header().block_count.store(0);
    remove_bus_guard();
    ::unlink(file.path.c_str());
    return status;
  }
  // What the first milliseconds need. The drain thread touches the rest of what the first second
  // needs (warm_ahead): here it would take longer than everything else that begins a session.
  populate(detail::g_base, kNamesOffset + journal_header().names_used.load());
  warmed_ = std::min(used.fresh() + kAtOnceBlocks, file.blocks);
  populate(bytes_of_block(1), bytes_for(warmed_) - bytes_for(1));
  file_ = std::move(file.fd);
  path_ = file.path;
  return {};
}

base::Status Backing::attach(const std::string& path, std::uint32_t blocks, const BlockPool& used) {
  NewFile file{.path = path, .blocks = blocks};
  file.fd = base::Fd(::open(file.temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.fd) return base::Status::from_errno("cannot create " + file.temporary);
  base::Status status = make_file(file);
  if (status.ok()) status = move_onto(file, used);
  if (status.ok()) return status;
  if (file.memory != nullptr) ::munmap(file.memory, file.bytes);
  ::unlink(file.temporary.c_str());
  return status;
}

bool Backing::detach(bool remove, const BlockPool& used) noexcept {
  if (!file_) return false;
  const std::scoped_lock standstill(mutex_, detail::names_mutex());
  void* memory = map_memory(nullptr, kRangeBytes);
  if (memory == MAP_FAILED) return false;
  copy_used(static_cast<std::byte*>(memory), used);
  if (::mremap(memory, kRangeBytes, kRangeBytes, MREMAP_MAYMOVE | MREMAP_FIXED, detail::g_base) ==
      MAP_FAILED)
    return false;
  journal_header().block_count.store(0);
  remove_bus_guard();
  if (remove) ::unlink(path_.c_str());
  file_.reset();
  path_.clear();
  return true;
}

void Backing::clear(bool remove) noexcept {
  // In a forked child the mapping is shared with the parent: nothing may be written before it is
  // replaced.
  map_memory_from(0);
  remove_bus_guard();
  if (remove && !path_.empty()) ::unlink(path_.c_str());
  file_.reset();  // a child's copy of the descriptor would keep the parent's lock alive
  path_.clear();
}

base::Status Backing::enlarge_file() {
  const std::size_t before = bytes_for(journal_header().block_count.load());
  base::Status status = allocate(file_.get(), before, kRangeBytes, path_);
  // What was allocated before the disk refused goes back: the spool needs it more.
  if (!status.ok()) (void)!::ftruncate(file_.get(), static_cast<off_t>(before));
  return status;
}

base::Status Backing::map_from(std::uint32_t first) {
  const std::size_t from = bytes_for(first);
  if (::mmap(detail::g_base + from, kRangeBytes - from, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file_.get(), static_cast<off_t>(from)) == MAP_FAILED) {
    base::Status status = base::Status::from_errno("cannot map " + path_);
    map_memory_from(from);
    return status;
  }
  expect_no_reading(detail::g_base + from, kRangeBytes - from);
  journal_header().block_count.store(kMaxBlocks);
  return {};
}

void Backing::warm_header() noexcept { populate(detail::g_base, kHeaderBytes); }

void Backing::warm_block(std::uint32_t number) noexcept {
  populate(bytes_of_block(number), kBlockBytes);
}

bool Backing::warm_ahead() noexcept {
  constexpr std::uint32_t kPiece = 8;
  if (!file_ || warmed_ >= kAheadBlocks) return true;
  const std::uint32_t end = std::min(warmed_ + kPiece, kAheadBlocks);
  populate(bytes_of_block(warmed_), std::size_t{end - warmed_} * kBlockBytes);
  warmed_ = end;
  return warmed_ == kAheadBlocks;
}

std::size_t Backing::file_bytes() const noexcept {
  struct stat info;
  return file_ && ::fstat(file_.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
}

bool Backing::file_is_gone() const noexcept {
  struct stat info;
  return file_ && ::fstat(file_.get(), &info) == 0 && info.st_nlink == 0;
}

}  // namespace sonde::record
