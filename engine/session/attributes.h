// Attributes of a session that are not known when it begins: the framework, the device, the
// exception, how it ended. Each change is in the journal at once, by a single store, so a killed
// process leaves the attributes as they were before it or after it.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde::session {

class Attributes {
 public:
  using Member = std::pair<std::string, std::string>;  // name, value as JSON

  // Any thread. Sets these and keeps all others. Throws nothing: where there is no room for all of
  // them, the longest values are left out.
  void set(const std::vector<Member>& members) noexcept;
  // The journal has started over: writes the attributes into it again.
  void store() noexcept;

 private:
  void store_locked();

  std::mutex mutex_;
  std::vector<Member> all_;
};

}  // namespace sonde::session
