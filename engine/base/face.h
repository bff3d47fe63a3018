// The API that a program uses ("face") decides how the engine calls itself in messages, what it
// calls the root span, and how it phrases advice. A face hands this value over when its session
// begins.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/advice.h"

namespace sonde::base {

struct Face {
  // Loggers are called <name>.flush and so on, the root span is <name>.session, and every line
  // begins with [<name>]: readers of a run know the face by its root span.
  std::string name = "sonde";
  // What a user of this API can do about a kind of trouble, by the key of its message. Where there
  // is no entry, the engine has general advice (advice.h, which lists the keys).
  std::map<std::string, std::string, std::less<>> advice;

  // The advice of this API under the key, or else the general one. `special` is general advice
  // that names something of this case, such as a directory.
  std::string_view advise(std::string_view key, std::string_view special = {}) const {
    if (const auto own = advice.find(key); own != advice.end()) return own->second;
    return special.empty() ? general_advice(key) : special;
  }

  bool operator==(const Face&) const = default;

  std::string prefix() const { return "[" + name + "] "; }
  std::string session_name() const { return name + ".session"; }
  std::string logger(std::string_view topic) const { return name + "." + std::string(topic); }
};

// Any thread, also in a forked child. The face of the session, or of the last one; one without
// advice before the first. It lives as long as the process.
const Face& face() noexcept;
void set_face(Face face);

}  // namespace sonde::base
