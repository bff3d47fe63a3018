// The API that a program uses ("face") decides how the engine calls itself in messages, what it
// calls the root span, and how it phrases advice. A face hands this value over when its session
// begins.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace sonde::base {

struct Face {
  // Loggers are called <name>.flush and so on, and the root span is <name>.session.
  std::string name = "sonde";
  // Every line begins with [<tag>]; with [<name>] where the tag is empty.
  std::string tag = {};
  // What a user of this API can do about a kind of trouble, by the key of its message. Where there
  // is no entry, the engine has general advice.
  std::map<std::string, std::string, std::less<>> advice;

  // That advice, or the general one.
  std::string_view advise(std::string_view key, std::string_view general = {}) const {
    const auto own = advice.find(key);
    return own != advice.end() ? std::string_view(own->second) : general;
  }

  std::string prefix() const { return "[" + (tag.empty() ? name : tag) + "] "; }
  std::string session_name() const { return name + ".session"; }
  std::string logger(std::string_view topic) const { return name + "." + std::string(topic); }
};

// Any thread. The face of the session, or of the last one; one without advice before the first.
std::shared_ptr<const Face> face();
void set_face(Face face);
// In a forked child: a thread that is not there any more may have held the lock.
void reset_face_after_fork() noexcept;

}  // namespace sonde::base
