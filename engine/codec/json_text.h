// Turns tokens of JSON text into values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/arena.h"
#include "engine/base/id.h"

namespace sonde::codec {

std::string_view trim(std::string_view text) noexcept;

// The text between the quotes of a string token. False when it is not a string.
bool string_body(std::string_view token, std::string_view& body) noexcept;

// Undoes the escapes. A lone surrogate becomes its three bytes, so that text from our writer comes
// back unchanged; a strict decoder would refuse it, and with it the whole batch.
bool unescape(std::string_view body, base::Arena& arena, std::string_view& out);

bool parse_integer(std::string_view token, std::int64_t& out) noexcept;
bool parse_unsigned(std::string_view token, std::uint64_t& out) noexcept;
// Beyond the range of a double it is infinite, or 0.
bool parse_real(std::string_view token, double& out);

// Whether the text is one legal JSON object and nothing else. Refuses more than 128 levels.
bool is_legal_object(std::string_view text) noexcept;

// 32 hex digits give their value, anything else (another producer's ids) a stable hash.
base::Id id_from_text(std::string_view text) noexcept;

// Python's encoder writes NaN, Infinity and -Infinity bare. Copies `json` with such tokens quoted;
// false when there is none.
bool quote_non_finite(std::string_view json, std::string& out);

}  // namespace sonde::codec
