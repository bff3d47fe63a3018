// Which spans of a trace to look at.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::model {

// Spans of exactly that name and everything below them, in the order of the list.
std::vector<Span> select_name(std::span<const Span> spans, std::string_view name);

// The `count` spans that ended last, newest first; a span that is still open counts as newest.
std::vector<Span> select_last(std::span<const Span> spans, std::size_t count);

}  // namespace sonde::model
