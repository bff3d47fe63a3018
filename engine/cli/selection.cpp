#include "engine/cli/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/cli/output.h"
#include "engine/model/line.h"

namespace sonde::cli {

namespace {

std::int64_t as_text(std::int64_t number) { return number; }

std::string as_text(std::string_view name) {
  std::string out;
  model::append_clean(out, name);
  return out;
}

template <typename List>
std::string join_some(const List& items) {
  constexpr std::size_t kSpoken = 10;
  std::string out;
  std::size_t spoken = 0;
  for (const auto& item : items) {
    if (spoken == kSpoken) return out + fmt::format(" and {} more", items.size() - kSpoken);
    out += fmt::format("{}{}", spoken++ == 0 ? "" : ", ", as_text(item));
  }
  return out;
}

}  // namespace

std::string some_of(const std::set<std::int64_t>& numbers) { return join_some(numbers); }
std::string some_of(const std::set<std::string, std::less<>>& names) { return join_some(names); }

void Selection::look(const std::vector<model::Span>& spans) {
  runs_.add(spans);
  const model::Span* before = nullptr;
  for (const model::Span& span : spans) {
    if (before == nullptr || before->rank != span.rank) ranks_.insert(span.rank);
    before = &span;
  }
}

bool Selection::settle(const std::string& directory) {
  runs_.finish();
  if (!wants_run()) return true;
  run_ = runs_.count();
  if (choice_.run != "last")
    std::from_chars(choice_.run.data(), choice_.run.data() + choice_.run.size(), run_);
  if (run_ != 0 && run_ <= runs_.count()) return true;
  complain(fmt::format("there is no run {}: {} holds {} of them; see which with: sonde trace {}",
                       choice_.run, directory, runs_.count(), directory));
  return false;
}

void Selection::narrow(std::vector<model::Span>& spans) {
  if (choice_.rank)
    std::erase_if(spans, [&](const model::Span& span) { return span.rank != *choice_.rank; });
  if (run_ != 0)
    std::erase_if(spans, [&](const model::Span& span) { return runs_.run_of(span) != run_; });
}

void Selection::explain_rank() const {
  if (!choice_.rank || ranks_.empty() || ranks_.contains(*choice_.rank)) return;
  complain(fmt::format("no span is of rank {}; there are spans of: {}", *choice_.rank,
                       join_some(ranks_)));
}

void Selection::explain_name(std::vector<std::string_view> names) const {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (choice_.name.empty() || names.empty() ||
      std::binary_search(names.begin(), names.end(), choice_.name))
    return;
  complain(fmt::format("no span is called {}; there are: {}", choice_.name, join_some(names)));
}

}  // namespace sonde::cli
