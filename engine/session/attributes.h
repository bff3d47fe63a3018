// What a session says of itself beyond what profile() knew: the framework, the device, the
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

  // Any thread. Sets these, and leaves the others. Nothing is thrown: what finds no room is left
  // out, the longest value first.
  void set(const std::vector<Member>& members) noexcept;
  // Into the journal again, which has started over.
  void store() noexcept;

 private:
  void store_locked();

  std::mutex mutex_;
  std::vector<Member> all_;
};

}  // namespace sonde::session
