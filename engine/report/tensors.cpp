#include "engine/report/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "engine/model/line.h"
#include "engine/report/times.h"

namespace sonde::report {

namespace {

using analysis::TensorLine;

std::string clean(std::string_view text) {
  std::string out;
  model::append_clean(out, text);
  return out;
}

std::string shape_of(const TensorLine& line) {
  std::string out = "[";
  std::copy_if(line.tensor.shape.begin(), line.tensor.shape.end(), std::back_inserter(out),
               [](char c) { return c != ' '; });
  return out + ']';
}

std::string run_of(const TensorLine& line) {
  return line.epoch->run == 0 ? "" : std::to_string(line.epoch->run);
}

std::string integer(std::int64_t value) {
  return value == model::kNone ? "" : std::to_string(value);
}

template <double model::TensorStats::*Field>
std::string rounded(const TensorLine& line) {
  return line.tensor.known ? fmt::format("{:.4g}", line.tensor.*Field) : "";
}

template <std::int64_t model::TensorStats::*Field>
std::string counted(const TensorLine& line) {
  return integer(line.tensor.*Field);
}

template <std::int64_t model::TensorStats::*Field>
bool any_counted(std::span<const TensorLine> lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const TensorLine& line) { return line.tensor.*Field > 0; });
}

template <typename Of>
bool differ(std::span<const TensorLine> lines, Of of) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const TensorLine& line) { return of(line) != of(lines.front()); });
}

bool always(std::span<const TensorLine>) { return true; }

bool several_processes_of_a_rank(std::span<const TensorLine> lines) {
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> pids;
  return std::any_of(lines.begin(), lines.end(), [&](const TensorLine& line) {
    const analysis::Epoch& epoch = *line.epoch;
    return pids.try_emplace({epoch.run, epoch.rank}, epoch.pid).first->second != epoch.pid;
  });
}

struct Column {
  std::string_view title;
  bool left;                                    // text is aligned left, numbers right
  std::string (*cell)(const TensorLine&);       // empty: a dash
  bool (*wanted)(std::span<const TensorLine>);  // whether there is anything to show
};

using Stats = model::TensorStats;

constexpr Column kColumns[] = {
    {"run", false, run_of,
     [](auto lines) { return differ(lines, [](const auto& line) { return line.epoch->run; }); }},
    {"epoch", false, [](const TensorLine& line) { return integer(line.epoch->index); }, always},
    {"rank", false, [](const TensorLine& line) { return integer(line.epoch->rank); },
     [](auto lines) { return differ(lines, [](const auto& line) { return line.epoch->rank; }); }},
    {"pid", false, [](const TensorLine& line) { return integer(line.epoch->pid); },
     several_processes_of_a_rank},
    {"tensor", true, [](const TensorLine& line) { return clean(line.tensor.name); }, always},
    {"shape", true, shape_of, always},
    {"dtype", true, [](const TensorLine& line) { return clean(line.tensor.dtype); }, always},
    {"mean", false, rounded<&Stats::mean>, always},
    {"std", false, rounded<&Stats::std>, always},
    {"min", false, rounded<&Stats::min>, always},
    {"max", false, rounded<&Stats::max>, always},
    {"norm", false, rounded<&Stats::norm>, always},
    {"nan", false, counted<&Stats::nan_count>, any_counted<&Stats::nan_count>},
    {"inf", false, counted<&Stats::inf_count>, any_counted<&Stats::inf_count>},
    {"zero", false, counted<&Stats::zero_count>, any_counted<&Stats::zero_count>},
};

// Characters, as far as alignment goes: bytes that begin a UTF-8 sequence.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Cells are made twice, for their width and for good: a million lines of them would not fit.
class Table {
 public:
  explicit Table(std::span<const TensorLine> lines) : lines_(lines) {
    for (const Column& column : kColumns) {
      if (column.wanted(lines)) columns_.push_back({&column, width_of(column.title)});
    }
    for (const TensorLine& line : lines) {
      for (Sized& sized : columns_)
        sized.width = std::max(sized.width, width_of(cell(sized, line)));
    }
  }

  std::string draw() const {
    std::string out;
    for (const Sized& sized : columns_) append(out, sized, std::string(sized.column->title));
    end_line(out);
    for (const TensorLine& line : lines_) {
      for (const Sized& sized : columns_) append(out, sized, cell(sized, line));
      // A sentence, which has no column: it would push the others apart.
      if (!line.tensor.known) out += "  " + reason(line);
      end_line(out);
    }
    return out;
  }

 private:
  struct Sized {
    const Column* column;
    std::size_t width;
  };

  static std::string cell(const Sized& sized, const TensorLine& line) {
    std::string text = sized.column->cell(line);
    return text.empty() ? "-" : text;
  }
  static std::string reason(const TensorLine& line) {
    return line.tensor.unavailable.empty() ? "no statistics for this type"
                                           : clean(line.tensor.unavailable);
  }
  void append(std::string& out, const Sized& sized, const std::string& cell) const {
    const std::string fill(sized.width - width_of(cell), ' ');
    if (&sized != &columns_.front()) out += "  ";
    out += sized.column->left ? cell + fill : fill + cell;
  }
  static void end_line(std::string& out) {
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }

  std::span<const TensorLine> lines_;
  std::vector<Sized> columns_;
};

void append_csv_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

std::string or_null(const std::string& number) { return number.empty() ? "null" : number; }

}  // namespace

std::string tensors_text(std::span<const TensorLine> lines, std::size_t left_out) {
  if (lines.empty()) return "(no snapshots)\n";
  std::string out = Table(lines).draw();
  if (left_out != 0) {
    out += fmt::format(
        "the newest epoch of each tensor, {} of {} lines; --epoch N shows another, --tensor GLOB "
        "all epochs of some tensors, --all everything\n",
        lines.size(), lines.size() + left_out);
  }
  return out;
}

std::string no_snapshots_line(const analysis::NoSnapshots& why) {
  using Cause = analysis::NoSnapshots::Cause;
  switch (why.cause) {
    case Cause::kOff:
      return "they were switched off, by profile(snapshots=\"off\") or CIRRON_SNAPSHOTS; leave "
             "that "
             "out to have them";
    case Cause::kForeign:
      return "the run does not say how they were set: it was recorded by the Cirron SDK, which "
             "captures only what ci.watch() is given, or by an older Sonde";
    case Cause::kSaid:
      return clean(why.said);
    case Cause::kGone:
      return fmt::format(
          "{} records were taken and none of them is here: they could not be written (the warnings "
          "of the run say why), or their files were removed since",
          why.taken);
    case Cause::kNoEpochYet:
      return "no epoch has begun yet; the first snapshot is taken at the end of an epoch";
    case Cause::kFirstEpoch:
      return fmt::format(
          "the run is in its first epoch, for {} by now; the first snapshot is taken at its end",
          long_duration(why.epoch_ns));
    case Cause::kOnTheWay:
      return "an epoch has ended, and nothing of it is written yet; look again in a second";
    case Cause::kDiedEarly:
      return "the process died before its first epoch had ended, which is when they are taken";
    case Cause::kDied:
      return "the process died before any of them was written";
    case Cause::kUnknown:
      break;
  }
  return "the run does not say why; its warnings may";
}

std::string tensors_csv_header() {
  return "run,epoch,rank,tensor,shape,dtype,mean,std,min,max,norm,count,nan_count,inf_count,"
         "zero_count,unavailable,pid\n";
}

void append_tensor_csv(std::string& out, const TensorLine& line) {
  const Stats& tensor = line.tensor;
  out += run_of(line) + ',' + integer(line.epoch->index) + ',' + integer(line.epoch->rank);
  const std::string shape = shape_of(line);
  for (const std::string_view text : {tensor.name, std::string_view(shape), tensor.dtype}) {
    out += ',';
    append_csv_text(out, text);
  }
  for (const double value : {tensor.mean, tensor.std, tensor.min, tensor.max, tensor.norm})
    out += tensor.known ? fmt::format(",{}", value) : ",";
  for (const std::int64_t value :
       {tensor.count, tensor.nan_count, tensor.inf_count, tensor.zero_count})
    out += ',' + integer(value);
  out += ',';
  append_csv_text(out, tensor.unavailable);
  out += ',' + integer(line.epoch->pid) + '\n';
}

void append_tensor_json(std::string& out, const analysis::Epoch& epoch, std::string_view record) {
  out += fmt::format("{{\"epoch\":{},\"run\":{},\"rank\":{}", or_null(integer(epoch.index)),
                     epoch.run == 0 ? "null" : std::to_string(epoch.run),
                     or_null(integer(epoch.rank)));
  record.remove_prefix(1);
  const std::size_t members = record.find_first_not_of(" \t\r\n");
  if (record[members] != '}') out += ',';
  out += record;
}

}  // namespace sonde::report
