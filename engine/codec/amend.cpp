#include "engine/codec/amend.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/attr_names.h"
#include "engine/base/id.h"
#include "engine/base/json_members.h"

namespace sonde::codec {

namespace {

// The value of the attribute `ended_by` in the span of this session, as it stands in the batch.
// "": there is none.
std::string_view ended_by_of(std::string_view batch, const base::Id& session) {
  std::string start = "{\"id\":\"" + std::string(32, '0');
  base::write_hex(session, start.data() + start.size() - 32);
  const std::size_t span = batch.find(start);
  if (span == std::string_view::npos) return {};
  const std::string_view attrs = base::find_member(batch.substr(span + 1), "attrs").raw();
  if (!attrs.starts_with('{')) return {};
  const base::JsonValue ended_by = base::find_member(attrs.substr(1), base::kEndedByAttr);
  return ended_by.plain_text().empty() ? std::string_view() : ended_by.raw();
}

}  // namespace

std::string with_exit_status(std::string_view batch, const base::Id& session, int status) {
  const std::string_view ended_by = ended_by_of(batch, session);
  if (ended_by.empty()) return {};
  const auto from = static_cast<std::size_t>(ended_by.data() - batch.data());
  const int code = status & 0xFF;
  std::string out(batch.substr(0, from));
  if (code == 0) {
    out.append("\"").append(base::kEndedByReturn).append("\"");
  } else {
    out += ended_by;
  }
  out.append(",\"").append(base::kExitCodeAttr).append("\":").append(std::to_string(code));
  out += batch.substr(from + ended_by.size());
  return out;
}

}  // namespace sonde::codec
