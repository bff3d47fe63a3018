// What is not in the spool when the session ends.
#pragma once

#include <cstdint>
#include <string>

#include "engine/session/contents.h"

namespace sonde::session {

struct LeftBehind {
  std::uint64_t batches = 0;  // batches that still wait
  Contents waiting;           // their records; also in the journal, if there is one
  Contents given_up;          // records that the journal does not have any more either
  std::string why;            // the last error; "" if it is not known
};

}  // namespace sonde::session
