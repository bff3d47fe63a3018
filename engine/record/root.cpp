#include "engine/record/root.h"

#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/record/addresses.h"
#include "engine/record/layout.h"

namespace sonde::record {

std::uint64_t open_root(std::uint32_t name, std::string_view attrs) noexcept {
  Header& head = journal_header();
  OpenScope& root = head.session;
  root.parent = 0;
  root.start_ns = base::monotonic_ns();
  root.index = 0;
  root.closing = root.aux = 0;
  root.name = name;
  root.static_attrs = 0;
  root.text_offset = root.name_length = 0;
  root.attrs_length =
      static_cast<std::uint16_t>(attrs.size() <= kSessionTextBytes ? attrs.size() : 0);
  root.flags.store(0);
  if (root.attrs_length != 0) std::memcpy(head.session_text, attrs.data(), root.attrs_length);
  head.session_thread_id = static_cast<std::uint64_t>(::pthread_self());
  // A lane number that no lane can have: no other scope has the root's sequence.
  const std::uint64_t sequence =
      (std::uint64_t{kMaxLanes} << kSequenceBits) + (root.start_ns & 0xFFFFFFFFFu) + 1;
  __atomic_store_n(&root.sequence, sequence, __ATOMIC_RELAXED);
  return sequence;
}

void set_root_attrs(std::uint32_t attrs) noexcept {
  __atomic_store_n(&journal_header().session.static_attrs, attrs, __ATOMIC_RELEASE);
}

void forget_root() noexcept {
  __atomic_store_n(&journal_header().session.sequence, 0, __ATOMIC_RELAXED);
}

}  // namespace sonde::record
