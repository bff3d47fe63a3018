#include "engine/session/attributes.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/record/names.h"
#include "engine/record/root.h"

namespace sonde::session {

namespace {

std::string joined(const std::vector<Attributes::Member>& members) {
  std::string out;
  for (const auto& [name, value] : members) {
    if (!out.empty()) out += ',';
    out += '"';
    out += name;
    out += "\":";
    out += value;
  }
  return out;
}

}  // namespace

void Attributes::set(const std::vector<Member>& members) noexcept try {
  const std::lock_guard lock(mutex_);
  for (const Member& member : members) {
    const auto known =
        std::ranges::find_if(all_, [&](const Member& one) { return one.first == member.first; });
    if (known == all_.end()) {
      all_.push_back(member);
    } else {
      known->second = member.second;
    }
  }
  store_locked();
} catch (...) {  // no memory: they stay as they were
}

void Attributes::store() noexcept try {
  const std::lock_guard lock(mutex_);
  store_locked();
} catch (...) {
}

// An interned text is in the journal before its number is. A session interns only a few of them.
void Attributes::store_locked() {
  std::vector<Member> kept = all_;
  std::uint32_t id = record::intern(joined(kept));
  while (id == 0 && !kept.empty()) {
    kept.erase(std::ranges::max_element(kept, {},
                                        [](const Member& member) { return member.second.size(); }));
    id = record::intern(joined(kept));
  }
  record::set_root_attrs(id);
}

}  // namespace sonde::session
