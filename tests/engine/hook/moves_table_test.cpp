// The table of moves, as docs/internals.md prints it.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/hook/moves.h"

namespace sonde::hook {
namespace {

std::string or_dash(const char* words) { return *words != '\0' ? words : "-"; }

std::string print_table() {
  std::string out = "| move | ends | begins |\n|---|---|---|\n";
  for (std::size_t i = 0; i < kMoves; ++i) {
    const MoveText text = text_of(Move(i));
    out += "| `" + std::string(text.name) + "` | " + or_dash(text.ends) + " | " +
           or_dash(text.begins) + " |\n";
  }
  return out;
}

TEST(MovesTable, IsPrintedInTheDocument) {
  const auto path = std::filesystem::path(SONDE_SOURCE_DIR) / "docs/internals.md";
  std::ostringstream document;
  document << std::ifstream(path).rdbuf();
  ASSERT_FALSE(document.str().empty()) << path;
  EXPECT_NE(document.str().find("\n\n" + print_table() + "\n"), std::string::npos)
      << path << " should have this table:\n\n"
      << print_table();
}

}  // namespace
}  // namespace sonde::hook
