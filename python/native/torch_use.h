// Tells a program that uses torch from one that only imports it: torch is used once its hooks have
// something to record.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// One per process. Needs the GIL.
class TorchUse {
 public:
  // To be called where torch's hooks record, and where no change of the training state is half
  // done: once per session it calls Python code. Hot.
  static void note() noexcept {
    if (awaited_) [[unlikely]]
      tell();
  }
  // Calls this at the next use; nullptr: nothing.
  static void await(PyObject* callback) noexcept;

 private:
  static void tell() noexcept;

  static constinit bool awaited_;      // torch has not been used in this session
  static constinit PyObject* on_use_;  // called at its first use
};

}  // namespace sonde::native
