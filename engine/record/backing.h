// The memory under the journal: one reserved range of addresses per process, backed by anonymous
// memory or, while a session writes to disk, by the journal file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/base/file.h"
#include "engine/base/status.h"

namespace sonde::record {

inline constexpr std::uint32_t kAtOnceBlocks = 4;   // touched before the session's first record
inline constexpr std::uint32_t kAheadBlocks = 128;  // touched soon after that, by the drain thread

class BlockPool;

class Backing {
 public:
  // Reserves the range and puts anonymous memory there. Throws when there is no address space.
  Backing();

  // -- lifecycle: one thread at a time, with the gate closed --

  // Moves everything onto a new file at `path` with `blocks` blocks, and locks that file. On
  // failure the memory stays as it was.
  base::Status attach(const std::string& path, std::uint32_t blocks, const BlockPool& used);
  // Moves everything back to anonymous memory and removes the file if `remove`. False: there is no
  // file, or no memory for the copy, and recording goes on in the file.
  bool detach(bool remove, const BlockPool& used) noexcept;
  // Empty memory instead of everything, under the caller's locks. The file is removed if `remove`;
  // a forked child must not, the file is its parent's.
  void clear(bool remove) noexcept;

  // -- drain thread --

  // Gives the file room for all blocks. The disk may take its time; threads record meanwhile.
  base::Status enlarge_file();
  // After enlarge_file(): puts the blocks from `first` on, none of which was ever used, into the
  // file. No thread may take one of them meanwhile.
  base::Status map_from(std::uint32_t first);
  // Touches pages, so that no recording thread has to fault them in.
  static void warm_header() noexcept;
  static void warm_block(std::uint32_t number) noexcept;
  // Touches the next few of the blocks that the first second needs. True: there are none left.
  bool warm_ahead() noexcept;

  bool on_file() const noexcept { return static_cast<bool>(file_); }
  const std::string& path() const noexcept { return path_; }
  std::size_t file_bytes() const noexcept;
  // Unlinked by another program: crash survival is lost.
  bool file_is_gone() const noexcept;

  // Held while the backing is exchanged, and by a thread that writes although the gate is closed:
  // one that ends and gives its lane back. Taken before every other lock of this folder.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  struct NewFile;
  static base::Status make_file(NewFile& file);
  base::Status move_onto(NewFile& file, const BlockPool& used);

  std::mutex mutex_;
  base::Fd file_;
  std::string path_;
  std::uint32_t warmed_;  // how far warm_ahead has come
};

}  // namespace sonde::record
