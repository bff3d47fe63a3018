// Interned names. One table per process, for its whole life: an id stays valid across sessions and
// forks. Every name is also written into the journal, where a reader finds it at the same id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace sonde::record {

inline constexpr std::size_t kMaxInternedBytes = 1024;

// Any thread. 0 when the table is full or the text too long: the caller then records the text
// itself. Takes a lock, so callers keep the id (the Python side looks a str up by identity first).
std::uint32_t intern(std::string_view text) noexcept;

// Any thread. For kinds of text without a bound on their number, such as messages: they get only
// half of the table, so that names always find room. Returns 0 as intern() does.
std::uint32_t intern_rare(std::string_view text) noexcept;

// Any thread, no lock. `id` must come from intern; 0 gives "".
std::string_view name_text(std::uint32_t id) noexcept;

// The id of a text that lies in the journal's names section itself, else 0. No lock, no hashing.
std::uint32_t interned_id(std::string_view text) noexcept;

namespace detail {
// Copies all names into a journal's names section and keeps it up to date from now on.
void mirror_names() noexcept;
// Held while a name is added: around fork, and while the journal's memory is exchanged.
std::mutex& names_mutex() noexcept;
}  // namespace detail

}  // namespace sonde::record
