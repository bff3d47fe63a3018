#include "engine/cli/output.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace sonde::cli {

namespace {

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void prepare_output() noexcept { ::signal(SIGPIPE, SIG_IGN); }

bool print(std::string_view text) noexcept {
  static bool reader_gone = false;
  if (!reader_gone && !write_all(STDOUT_FILENO, text)) {
    // EPIPE is not an error: the reader has seen enough.
    if (errno != EPIPE) complain("cannot write the output; is the disk full?");
    reader_gone = true;
  }
  return !reader_gone;
}

void complain(std::string_view text) noexcept {
  std::string line = "sonde: ";
  line += text;
  line += '\n';
  write_all(STDERR_FILENO, line);
}

}  // namespace sonde::cli
