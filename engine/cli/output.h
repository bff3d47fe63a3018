// Standard output and error of the commands. The reader of the output may go away (`| head`): that
// is no error, and nothing more is written then.
#pragma once

#include <string_view>

namespace sonde::cli {

// Once, before anything is written.
void prepare_output() noexcept;

// False when the output is not read any more.
bool print(std::string_view text) noexcept;

// One line on standard error, with the program's name in front. Say what to do at its end.
void complain(std::string_view text) noexcept;

}  // namespace sonde::cli
