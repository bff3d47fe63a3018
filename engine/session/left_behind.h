// What the spool has not got when the session ends.
#pragma once

#include <cstdint>
#include <string>

#include "engine/session/contents.h"

namespace sonde::session {

struct LeftBehind {
  std::uint64_t batches = 0;  // that still wait
  Contents waiting;           // what is in those; the journal has it too, if there is one
  Contents given_up;          // no longer in the journal either
  std::string why;            // the last error; "" where that is not known
};

}  // namespace sonde::session
