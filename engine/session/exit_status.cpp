#include "engine/session/exit_status.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/json_members.h"

namespace sonde::session {

namespace {

struct Owed {
  std::string file;
  base::Id session;
  pid_t pid;  // a forked child inherits the handler, which must do nothing there
};
Owed* g_owed = nullptr;

void on_process_exit(int status, void*) {
  if (g_owed == nullptr || g_owed->pid != ::getpid()) return;
  try {
    std::string batch;
    if (!base::read_file(g_owed->file, batch).ok()) return;  // evicted meanwhile
    const std::string amended = with_exit_status(batch, g_owed->session, status);
    const std::array<std::string_view, 1> parts = {amended};
    if (!amended.empty()) (void)base::write_atomically(g_owed->file, parts);
  } catch (...) {
    // The span stays without the exit status.
  }
  g_owed = nullptr;
}

// The attribute `ended_by` of that session's span, as it stands in the batch; "": there is none.
std::string_view ended_by_of(std::string_view batch, const base::Id& session) {
  std::string start = "{\"id\":\"" + std::string(32, '0');
  base::write_hex(session, start.data() + start.size() - 32);
  const std::size_t span = batch.find(start);
  if (span == std::string_view::npos) return {};
  const std::string_view attrs = base::find_member(batch.substr(span + 1), "attrs").raw();
  if (!attrs.starts_with('{')) return {};
  const base::JsonValue ended_by = base::find_member(attrs.substr(1), "ended_by");
  return ended_by.plain_text().empty() ? std::string_view() : ended_by.raw();
}

}  // namespace

void amend_at_exit(std::string file, const base::Id& session) noexcept try {
  const bool first = g_owed == nullptr;
  g_owed = new Owed{std::move(file), session, ::getpid()};  // outlives static destructors
  // Registered last, it is called first: before other libraries are taken down.
  if (first) ::on_exit(on_process_exit, nullptr);
} catch (...) {
}

std::string with_exit_status(std::string_view batch, const base::Id& session, int status) {
  const std::string_view ended_by = ended_by_of(batch, session);
  if (ended_by.empty()) return {};
  const auto from = static_cast<std::size_t>(ended_by.data() - batch.data());
  const int code = status & 0xFF;
  std::string out(batch.substr(0, from));
  out += code == 0 ? std::string_view("\"return\"") : ended_by;
  out += ",\"exit_code\":" + std::to_string(code);
  out += batch.substr(from + ended_by.size());
  return out;
}

}  // namespace sonde::session
