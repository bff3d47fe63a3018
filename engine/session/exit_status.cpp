#include "engine/session/exit_status.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/codec/amend.h"

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
    const std::string amended = codec::with_exit_status(batch, g_owed->session, status);
    const std::array<std::string_view, 1> parts = {amended};
    if (!amended.empty()) (void)base::write_atomically(g_owed->file, parts);
  } catch (...) {
    // The span stays without the exit status.
  }
  g_owed = nullptr;
}

}  // namespace

void amend_at_exit(std::string file, const base::Id& session) noexcept try {
  const bool first = g_owed == nullptr;
  g_owed = new Owed{std::move(file), session, ::getpid()};  // outlives static destructors
  // Registered last, it is called first: before other libraries are taken down.
  if (first) ::on_exit(on_process_exit, nullptr);
} catch (...) {
}

}  // namespace sonde::session
