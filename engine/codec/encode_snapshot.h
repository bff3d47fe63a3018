// A snapshot as the JSON object of spool v1 (docs/formats/spool.md).
#pragma once

#include "engine/base/json_writer.h"
#include "engine/model/snapshot_record.h"

namespace sonde::codec {

void encode_snapshot(base::JsonWriter& out, const model::SnapshotRecord& record);

}  // namespace sonde::codec
