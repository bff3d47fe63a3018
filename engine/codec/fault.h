// What is wrong with the text of a batch.
#pragma once

namespace sonde::codec {

struct Fault {
  int error = 0;  // 0: nothing is wrong
  const char* reason = "";
};

}  // namespace sonde::codec
