// Standard output and error of the commands. If the reader of the output goes away (`| head`), that
// is no error, and nothing more is written.
#pragma once

#include <string_view>

namespace sonde::cli {

// To be called once, before anything is written.
void prepare_output() noexcept;

// False when the output is not read any more.
bool print(std::string_view text) noexcept;

// One line on standard error, after the program's name. It should end with what to do.
void complain(std::string_view text) noexcept;

}  // namespace sonde::cli
