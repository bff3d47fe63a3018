// Joins captures of one epoch and kind that were taken at different moments: each optimizer's
// gradients are final at a moment of their own, and all go into one file.
#pragma once

#include <memory>
#include <vector>

#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::snapshot {

// The joined capture is complete when the statistics of all parts are. It has the span, kind, mode
// and time of the last part, and each record gets the attributes of its own part. `in_blob` of a
// part has an entry for each of its records, or is empty where none is in a blob.
Capture join(std::vector<Capture> parts);

// One source with the tensors of all parts. Null parts are passed over; null where all are.
std::unique_ptr<BlobSource> join(std::vector<std::unique_ptr<BlobSource>> parts);

}  // namespace sonde::snapshot
