// Captures of one epoch and kind that were taken at different moments, as one: each optimizer's
// gradients are final at a moment of their own, and go into one file.
#pragma once

#include <memory>
#include <vector>

#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::snapshot {

// Statistics that are still to come are waited for together. What is the same of all (span, kind,
// mode, time) is the last one's; its attributes become those of its records. `in_blob` of each has
// to be complete, or empty: none of them.
Capture join(std::vector<Capture> parts);

// The tensors of all of them. Null ones are passed over; null where there is no other.
std::unique_ptr<BlobSource> join(std::vector<std::unique_ptr<BlobSource>> parts);

}  // namespace sonde::snapshot
