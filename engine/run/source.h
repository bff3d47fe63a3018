// Where a run can be read from. A directory with a spool and live journals is one source
// (directory_source.h); a server that collects batches will be another. A source lists what it
// holds and hands it out piece by piece; traces, summaries and autopsies are built on top of it.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/codec/detail.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"

namespace sonde::run {

using codec::Detail;
using model::Process;

// Why something could not be read. The error numbers of base::Status stand for these three,
// whatever the source is.
enum class Trouble {
  kNone,
  kGone,        // ENOENT: no longer there
  kUnreadable,  // EINVAL: damaged; EPROTO: of a newer version. It stays so
  kPassing,     // anything else: reading may succeed the next time
};

inline Trouble trouble_of(const base::Status& status) noexcept {
  switch (status.error()) {
    case 0:
      return Trouble::kNone;
    case ENOENT:
      return Trouble::kGone;
    case EINVAL:
    case EPROTO:
      return Trouble::kUnreadable;
    default:
      return Trouble::kPassing;
  }
}

// Used by one thread at a time.
class Source {
 public:
  virtual ~Source() = default;

  // What a command has to be given to read the same source again, as in "sonde trace NAME": of a
  // directory its path.
  virtual const std::string& name() const = 0;
  // The source as the user called it, for messages.
  virtual const std::string& called() const { return name(); }
  // False for a part of a run, such as a single file of a spool: it has no processes.
  virtual bool is_whole_run() const { return true; }
  bool empty() const { return processes().empty() && batches().empty(); }

  // Lists what is there now. Until the next call, the lists below stay as they are. kGone: the
  // whole source is no longer there.
  virtual base::Status refresh() = 0;

  // The processes, by keys that stay the same for the life of a process.
  virtual std::span<const std::string> processes() const = 0;
  // kGone: since the last refresh(). What it had not stored then may be stored now, so
  // a reader that wants everything inspects the processes, then calls refresh() again and reads the
  // batches, and drops what it sees twice.
  virtual base::Status inspect(const std::string& process, Process& out) = 0;

  // The stored batches, by keys, oldest first.
  virtual std::span<const std::string> batches() const = 0;
  // kGone: since the last refresh(). Replaces the contents of `out`.
  virtual base::Status read(const std::string& batch, Detail detail, model::Batch& out) = 0;
  // A time after which nothing in the batch ended; the largest number where it is not known.
  virtual std::int64_t sealed_ns(const std::string& batch) const = 0;

  // Stores what dead processes left. A source that only reads does nothing.
  virtual model::Recovery recover() { return {}; }
};

}  // namespace sonde::run
