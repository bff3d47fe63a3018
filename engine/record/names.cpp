#include "engine/record/names.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/record/addresses.h"
#include "engine/record/layout.h"

namespace sonde::record {

namespace {

constexpr std::size_t kAlign = 8;

// The process's own copy is the truth: the journal's is shared with the file and may vanish with
// it.
struct NameTable {
  std::mutex mutex;
  std::unordered_map<std::string_view, std::uint32_t> ids;
  char* text = nullptr;
  std::atomic<std::size_t> used{kAlign};  // offset 0 is the id "none"

  NameTable() {
    void* memory = ::mmap(nullptr, kNamesBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    text = static_cast<char*>(memory);
  }
};

NameTable& table() {
  static auto* instance = new NameTable;  // never destroyed: threads outlive static destructors
  return *instance;
}

std::uint32_t append(NameTable& names, std::string_view text) {
  const std::size_t offset = names.used.load(std::memory_order_relaxed);
  const std::size_t bytes = (sizeof(std::uint32_t) + text.size() + kAlign - 1) / kAlign * kAlign;
  if (offset + bytes > kNamesBytes) return 0;
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(names.text + offset, &length, sizeof length);
  std::memcpy(names.text + offset + sizeof length, text.data(), text.size());
  detail::make_journal();
  std::memcpy(journal_names() + offset, names.text + offset, bytes);
  names.used.store(offset + bytes, std::memory_order_release);
  journal_header().names_used.store(offset + bytes, std::memory_order_release);
  const auto id = static_cast<std::uint32_t>(offset / kAlign);
  names.ids.emplace(name_text(id), id);
  return id;
}

}  // namespace

std::uint32_t intern(std::string_view text) noexcept {
  if (text.size() > kMaxInternedBytes) return 0;
  try {
    NameTable& names = table();
    const std::lock_guard lock(names.mutex);
    const auto found = names.ids.find(text);
    return found != names.ids.end() ? found->second : append(names, text);
  } catch (...) {
    return 0;
  }
}

std::uint32_t intern_rare(std::string_view text) noexcept {
  return table().used.load(std::memory_order_relaxed) < kNamesBytes / 2 ? intern(text) : 0;
}

std::string_view name_text(std::uint32_t id) noexcept {
  if (id == 0) return {};
  const char* entry = table().text + std::size_t{id} * kAlign;
  std::uint32_t length;
  std::memcpy(&length, entry, sizeof length);
  return {entry + sizeof length, length};
}

std::uint32_t interned_id(std::string_view text) noexcept {
  if (detail::g_base == nullptr) return 0;  // no name was ever interned
  const char* first = journal_names() + sizeof(std::uint32_t);
  if (text.data() < first || text.data() >= first + kNamesBytes) return 0;
  return static_cast<std::uint32_t>(static_cast<std::size_t>(text.data() - first) / kAlign);
}

namespace detail {

void mirror_names() noexcept {
  NameTable& names = table();
  const std::size_t used = names.used.load(std::memory_order_acquire);
  std::memcpy(journal_names(), names.text, used);
  journal_header().names_used.store(used, std::memory_order_release);
}

std::mutex& names_mutex() noexcept { return table().mutex; }

}  // namespace detail

}  // namespace sonde::record
