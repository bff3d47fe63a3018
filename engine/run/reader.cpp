#include "engine/run/reader.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/source.h"

namespace sonde::run {

bool Reader::note(const base::Status& status) {
  if (status.ok()) {
    ++skipped_.read;
  } else if (trouble_of(status) != Trouble::kGone) {
    if (++skipped_.skipped <= Skipped::kNamed) skipped_.problems.push_back(status.text());
  }
  return status.ok();
}

std::vector<model::Batch> Reader::read_journals() {
  std::vector<model::Batch> out;
  for (const std::string& key : source_.processes()) {
    Process process;
    if (!note(source_.inspect(key, process))) continue;
    model::Batch& records = out.emplace_back(std::move(process.records));
    for (const model::OpenScope& open : process.state.open) records.spans.push_back(open.span);
    for (const model::Span& span : records.spans) in_journal_.insert(span.id);
    for (const model::Mark& mark : records.marks) in_journal_.insert(mark.id);
  }
  if (const base::Status status = list_again(); !status.ok()) note(status);
  return out;
}

base::Status Reader::list_again() {
  return source_.processes().empty() ? base::Status() : source_.refresh();
}

bool Reader::read_batch(const std::string& batch, Detail detail, model::Batch& out) {
  if (!note(source_.read(batch, detail, out))) return false;
  if (!in_journal_.empty()) {
    const auto seen = [&](const auto& record) { return in_journal_.contains(record.id); };
    std::erase_if(out.spans, seen);
    std::erase_if(out.marks, seen);
  }
  return true;
}

void Reader::each_batch(Detail detail, Order order,
                        const std::function<void(model::Batch&)>& take) {
  std::vector<model::Batch> journals = read_journals();
  const auto take_journals = [&] {
    for (model::Batch& batch : journals) take(batch);
  };
  if (order == Order::kJournalsFirst) take_journals();
  model::Batch batch;
  for (const std::string& key : source_.batches()) {
    if (read_batch(key, detail, batch)) take(batch);
  }
  if (order == Order::kJournalsLast) take_journals();
}

}  // namespace sonde::run
