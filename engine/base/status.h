// What a fallible operation returns outside the hot path: success, or an errno with a text that
// says what was being done. Setting up may throw; recording and draining never do.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace sonde::base {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int error, std::string doing) : error_(error), doing_(std::move(doing)) {}

  static Status from_errno(std::string doing) { return {errno, std::move(doing)}; }

  bool ok() const noexcept { return error_ == 0; }
  int error() const noexcept { return error_; }
  // "cannot write /x/y: No space left on device". For EINVAL and EPROTO, which
  // the engine itself returns, only the first part.
  std::string text() const {
    if (ok()) return "ok";
    return error_ == EINVAL || error_ == EPROTO ? doing_ : doing_ + ": " + std::strerror(error_);
  }

 private:
  int error_ = 0;
  std::string doing_;
};

}  // namespace sonde::base
