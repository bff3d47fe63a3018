#include "engine/cli/selection.h"

#include <fmt/format.h>

#include <charconv>

#include "engine/cli/output.h"

namespace sonde::cli {

void Selection::look(const std::vector<model::Span>& spans) { runs_.add(spans); }

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

}  // namespace sonde::cli
