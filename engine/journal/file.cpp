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
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
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

namespace {

// Whether the process `pid`, which wrote the journal or recovers it, may be alive. Nothing is known
// of processes on other hosts, so their journals are left alone.
bool may_live(const Header& head, pid_t pid) {
  char host[sizeof head.host] = {};
  ::gethostname(host, sizeof host - 1);
  if (std::strncmp(host, head.host, sizeof host) != 0) return true;
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

// Without locks the best evidence is the process table of this host. Once a session has ended, its
// journal has no owner any more, even if the process lives on.
bool alive_by_process_table(const Header& head) {
  return head.ended == 0 && head.clean == 0 && may_live(head, static_cast<pid_t>(head.pid));
}

// A journal that is recovered without a lock is called x.recovering-<pid>.journal.
constexpr std::string_view kClaim = ".recovering-";

std::size_t find_claim(const std::string& path) {
  const std::size_t folder = path.rfind('/');
  return path.find(kClaim, folder == std::string::npos ? 0 : folder);
}

// The process that has claimed it; 0: none has.
pid_t claimant(const std::string& path) {
  const std::size_t at = find_claim(path);
  return at == std::string::npos ? 0 : std::atoi(path.c_str() + at + kClaim.size());
}

// The name without the claim and without ".journal".
std::string stem(const std::string& path) {
  return path.substr(0, std::min(find_claim(path), path.size() - kJournalSuffix.size()));
}

}  // namespace

bool File::owner_alive() const {
  struct flock lock = record::owner_lock();
  if (::fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0) return lock.l_type != F_UNLCK;
  return claimant(path_) == 0 && alive_by_process_table(header());
}

bool File::try_lock() {
  struct flock lock = record::owner_lock();
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return true;
  return record::has_no_locks(errno) && claim();
}

// Of several processes that rename the file, one succeeds. If that one dies, the new name still
// ends in .journal, and the pid in it shows others that they may claim the journal once more.
bool File::claim() {
  const pid_t other = claimant(path_);
  if (other != 0 ? may_live(header(), other) : alive_by_process_table(header())) return false;
  return rename(stem(path_).append(kClaim).append(std::to_string(::getpid())));
}

void File::withdraw_claim() {
  if (claimant(path_) == ::getpid()) rename(stem(path_));
}

bool File::rename(std::string stem) {
  std::string path = std::move(stem.append(kJournalSuffix));
  if (::rename(path_.c_str(), path.c_str()) != 0) return false;
  path_ = std::move(path);
  return true;
}

}  // namespace sonde::journal
