// What the journal of another process says. A running process is not disturbed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/journal/destination.h"
#include "engine/journal/file.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/process.h"

namespace sonde::journal {

inline constexpr std::string_view kLiveFolder = "live";
// `<20-digit ns>-<32 hex>.journal`: the order of names is the order of time.
std::string file_name(std::int64_t started_ns, const base::Id& key);

// Only reads: it neither writes nor locks out the owner. A batch that was announced and is at its
// destination is left out. A file that is not a journal, or one of another version, is an error
// (EPROTO) whose text says which version it has and what to do.
base::Status inspect(const std::string& path, const Destination& destination, model::Process& out);

// Fills in which process wrote the journal, when it began and how it ended. The caller has to set
// the fate to running if the lock of the journal is held: the header alone does not tell.
void describe(const View& view, model::ProcessState& out);

}  // namespace sonde::journal
