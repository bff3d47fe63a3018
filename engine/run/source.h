// Where a run can be read from. A directory with a spool and live journals is one source
// (directory_source.h); a server that collects batches will be another. A source says what it holds
// and hands it out piece by piece; what a trace, a summary or an autopsy is made of lies above it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/codec/detail.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/recovery.h"

namespace sonde::run {

using codec::Detail;

// A process that runs, or that died and has not been recovered.
struct Process {
  // Without its last spans and marks: these are `records`. Points into the arena of `records`.
  model::ProcessState state;
  model::Batch records;  // closed, but not stored yet; by the time they ended
};

// Used by one thread at a time.
class Source {
 public:
  virtual ~Source() = default;

  // How messages call it.
  virtual const std::string& name() const = 0;

  // Looks for what is there now. Until the next call, the lists below stay as they are.
  virtual base::Status refresh() = 0;

  // The processes, by keys that stay the same for the life of a process.
  virtual std::span<const std::string> processes() const = 0;
  // ENOENT: it is gone since the last refresh(). What it had not stored then may be stored now, so
  // a reader that wants everything inspects processes before it reads batches, and drops what it
  // sees twice.
  virtual base::Status inspect(const std::string& process, Process& out) = 0;

  // The stored batches, by keys, oldest first.
  virtual std::span<const std::string> batches() const = 0;
  // ENOENT: it is gone since the last refresh(). Replaces the contents of `out`.
  virtual base::Status read(const std::string& batch, Detail detail, model::Batch& out) = 0;
  // Nothing in the batch ended later. The far future where that is not known.
  virtual std::int64_t sealed_ns(const std::string& batch) const = 0;

  // Stores what dead processes left. A source that only reads does nothing.
  virtual Recovery recover() { return {}; }
};

}  // namespace sonde::run
