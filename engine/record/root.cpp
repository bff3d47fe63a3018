#include "engine/record/root.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/json_members.h"
#include "engine/record/addresses.h"
#include "engine/record/layout.h"

namespace sonde::record {

namespace {

// Returns how many members found no room.
std::uint32_t copy_attrs(Header& head, std::string_view attrs) noexcept {
  std::size_t used = 0;
  const auto put = [&](std::string_view text) {
    if (!text.empty()) std::memcpy(head.session_text + used, text.data(), text.size());
    used += text.size();
  };
  std::uint32_t left_out = 0;
  if (attrs.size() <= kSessionTextBytes) {
    put(attrs);
  } else {
    for (base::JsonMembers members(attrs); members.next();) {
      const std::string_view comma = used == 0 ? "" : ",";
      if (used + comma.size() + members.text().size() > kSessionTextBytes) {
        ++left_out;
        continue;
      }
      put(comma);
      put(members.text());
    }
  }
  head.session.attrs_length = static_cast<std::uint16_t>(used);
  return left_out;
}

}  // namespace

OpenedRoot open_root(std::uint32_t name, std::string_view attrs) noexcept {
  Header& head = journal_header();
  OpenScope& root = head.session;
  root.parent = 0;
  root.start_ns = base::monotonic_ns();
  root.index = 0;
  root.closing = root.aux = 0;
  root.name = name;
  root.static_attrs = 0;
  root.text_offset = root.name_length = 0;
  root.flags.store(0);
  const std::uint32_t left_out = copy_attrs(head, attrs);
  head.session_thread_id = static_cast<std::uint64_t>(::pthread_self());
  // A lane number that no lane can have: no other scope has the root's sequence.
  const std::uint64_t sequence =
      (std::uint64_t{kMaxLanes} << kSequenceBits) + (root.start_ns & 0xFFFFFFFFFu) + 1;
  __atomic_store_n(&root.sequence, sequence, __ATOMIC_RELAXED);
  return {.sequence = sequence, .left_out = left_out};
}

void set_root_attrs(std::uint32_t attrs) noexcept {
  __atomic_store_n(&journal_header().session.static_attrs, attrs, __ATOMIC_RELEASE);
}

void forget_root() noexcept {
  __atomic_store_n(&journal_header().session.sequence, 0, __ATOMIC_RELAXED);
}

}  // namespace sonde::record
