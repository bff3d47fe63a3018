#include "engine/session/attributes.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/base/attr_writer.h"
#include "engine/base/json_writer.h"
#include "engine/record/names.h"
#include "engine/record/root.h"

namespace sonde::session {

namespace {

std::uint32_t interned(const std::vector<Attributes::Member>& members) {
  base::JsonWriter out;
  base::AttrWriter attrs(out);
  for (const auto& [name, value] : members) attrs.json(name, value);
  return record::intern(out.view());
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
  std::uint32_t id = interned(kept);
  while (id == 0 && !kept.empty()) {
    kept.erase(std::ranges::max_element(kept, {},
                                        [](const Member& member) { return member.second.size(); }));
    id = interned(kept);
  }
  record::set_root_attrs(id);
}

}  // namespace sonde::session
