// Where the batches of a journal go. A journal announces a batch before it is written, so a reader
// of a dead journal has to ask the destination whether the announced batch arrived.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/model/trace.h"

namespace sonde::journal {

class Destination {
 public:
  virtual ~Destination() = default;
  // For messages: "the spool".
  virtual std::string_view name() const noexcept = 0;
  virtual bool contains(std::int64_t created_ns, const base::Id& batch_id) const = 0;
  // The batch is there as a whole or not at all, even if this process is killed meanwhile.
  virtual base::Status write(const model::Batch& batch) = 0;
};

}  // namespace sonde::journal
