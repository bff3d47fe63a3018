#include "engine/session/first_non_finite.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/attr_writer.h"
#include "engine/base/json_writer.h"
#include "engine/base/utf8.h"
#include "engine/line/line.h"
#include "engine/model/trace.h"
#include "engine/record/mark.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

void FirstNonFinite::examine(const snapshot::Capture& capture) {
  const bool weights = capture.kind == snapshot::Kind::kWeights;
  if (weights ? weights_alarmed_ : weights_alarmed_ || gradients_alarmed_) return;
  const std::size_t found = first_non_finite(capture);
  if (found == capture.size()) return;
  const bool said = weights && gradients_alarmed_ && alarmed_span_ == capture.span_id;
  (weights ? weights_alarmed_ : gradients_alarmed_) = true;
  if (said) return;
  alarmed_span_ = capture.span_id;
  Alarm alarm;
  alarm.tensor = (*capture.catalogue)[found].name;
  alarm.span_id = capture.span_id;
  alarm.ts_ns = capture.ts_ns;
  std::string text = "first non-finite value: ";
  line::append_clean(text, alarm.tensor);
  const char* separator = " at ";
  base::JsonWriter attrs;
  base::AttrWriter members(attrs);
  for (const auto& [name, index] :
       {std::pair("epoch", capture.epoch), std::pair("step", capture.step)}) {
    if (!index) continue;
    const std::string number = std::to_string(*index);
    text += std::exchange(separator, " ") + std::string(name) + "[" + number + "]";
    members.number(name, *index);
  }
  alarm.attrs = attrs.str();
  texts_due_.push_back(std::move(text));
  marks_due_.push_back(std::move(alarm));
}

std::vector<std::string> FirstNonFinite::take_texts() { return std::exchange(texts_due_, {}); }

std::vector<model::Mark> FirstNonFinite::take_marks(base::Arena& arena) {
  std::vector<model::Mark> marks;
  for (const Alarm& alarm : marks_due_) {
    model::Mark& mark = marks.emplace_back();
    mark.span_id = alarm.span_id;
    mark.name = "first_non_finite";
    mark.type = model::ValueType::kString;
    mark.text = arena.copy(base::cut_utf8(alarm.tensor, record::kMaxStringBytes));
    mark.attrs = arena.copy(alarm.attrs);
    mark.ts_ns = alarm.ts_ns;
  }
  marks_due_.clear();
  return marks;
}

}  // namespace sonde::session
