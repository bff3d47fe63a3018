#include "engine/session/lines.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "engine/model/line.h"

namespace sonde::session {

std::vector<std::string> lines_of(const model::Batch& batch, const model::Batch& earlier) {
  constexpr std::size_t kMaxMarks = 64;
  std::unordered_map<base::Id, std::vector<const model::Mark*>, base::IdHash> marks_of;
  for (const model::Batch* each : {&earlier, &batch}) {
    for (const model::Mark& mark : each->marks) marks_of[mark.span_id].push_back(&mark);
  }
  std::vector<std::string> lines;
  lines.reserve(batch.spans.size());
  for (const model::Span& span : batch.spans) {
    std::string& line = lines.emplace_back("[cirron] ");
    std::span<const model::Mark* const> marks;
    if (const auto found = marks_of.find(span.id); found != marks_of.end()) marks = found->second;
    model::append_line(line, span, marks.last(std::min(marks.size(), kMaxMarks)));
  }
  return lines;
}

}  // namespace sonde::session
