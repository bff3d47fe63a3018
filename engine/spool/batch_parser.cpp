#include "engine/spool/batch_parser.h"

#include <simdjson.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "engine/spool/json_text.h"

namespace sonde::spool {

namespace ondemand = simdjson::ondemand;

static_assert(BatchParser::kPadding >= simdjson::SIMDJSON_PADDING);

struct BatchParser::State {
  ondemand::parser parser;
};

namespace {

// Ends the parse; caught in BatchParser::parse and nowhere else. Files are all right or refused, so
// there is nothing to go on with, and forty error checks in a row hide what is being read.
struct Refusal {
  const char* reason;
};

[[noreturn]] void refuse(const char* reason) { throw Refusal{reason}; }

// The value itself, where it lies: copying a field costs more (stores that cannot be forwarded) than
// finding it.
template <typename T>
T&& must(simdjson::simdjson_result<T>&& result) {
  if (result.error() != simdjson::SUCCESS) [[unlikely]] refuse(simdjson::error_message(result.error()));
  return std::move(result).value_unsafe();
}

// Finds a key's place in a fixed list. Writers keep the order, so the place after the last one found
// is nearly always right; a reader may rely on nothing, so the others are tried too.
template <std::size_t N>
class Keys {
 public:
  constexpr explicit Keys(const std::array<std::string_view, N>& quoted) : quoted_(quoted) {}
  // N: unknown.
  std::size_t find(const char* raw, std::size_t& expected) const noexcept {
    for (std::size_t tried = 0, i = expected; tried < N; ++tried, i = i + 1 < N ? i + 1 : 0) {
      if (std::memcmp(raw, quoted_[i].data(), quoted_[i].size()) == 0) {
        expected = i + 1 < N ? i + 1 : 0;
        return i;
      }
    }
    return N;
  }

 private:
  std::array<std::string_view, N> quoted_;  // with the closing quote; shorter than the padding
};

// Repeated names share one copy. Direct-mapped and small: names of spans repeat at once or never.
class RecentTexts {
 public:
  std::string_view get(std::string_view body, base::Arena& arena) {
    Entry& entry = entries_[place(body)];
    if (entry.text.data() != nullptr && entry.body == body) return entry.text;
    std::string_view text;
    if (!unescape(body, arena, text)) refuse("a string has an illegal escape");
    entry = {body, text};
    return text;
  }

 private:
  struct Entry {
    std::string_view body;
    std::string_view text;
  };
  static std::size_t place(std::string_view body) noexcept {
    if (body.empty()) return 0;
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(body[i])); };
    return (body.size() + at(0) * 7 + at(body.size() / 2) * 31 + at(body.size() - 1) * 131) % kEntries;
  }
  static constexpr std::size_t kEntries = 128;
  std::array<Entry, kEntries> entries_;
};

// A value's text up to the next token. A string is consumed: one that is merely skipped may be taken
// for a key if a colon follows, and the damage passes unseen.
std::string_view token_of(ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (token.front() == '"') must(value.get_raw_json_string());
  return token;
}

std::string_view string_of(std::string_view token) {
  std::string_view body;
  if (!string_body(token, body)) refuse("a string is expected");
  return body;
}

base::Id id_of(std::string_view token) {
  if (token.starts_with('n')) return {};
  const std::string_view body = string_of(token);
  return body.empty() ? base::Id{} : id_from_text(body);
}

std::int64_t integer_of(std::string_view token) {
  std::int64_t value = 0;
  if (!parse_integer(token, value)) refuse("an integer is expected");
  return value;
}

// Null, and also a value that no 64 bits hold: not knowing it is better than losing the file.
std::int64_t optional_of(std::string_view token) noexcept {
  std::int64_t value = 0;
  return parse_integer(token, value) ? value : model::kNone;
}

std::int32_t small_of(std::string_view token) {
  const std::int64_t value = integer_of(token);
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
    refuse("a pid or rank is out of range");
  }
  return static_cast<std::int32_t>(value);
}

std::uint64_t thread_of(std::string_view token) {
  std::uint64_t value = 0;
  return parse_unsigned(token, value) ? value : static_cast<std::uint64_t>(integer_of(token));
}

// An object's text. simdjson looks at no more than it is asked for, and this is handed on as it
// stands, so it is checked here.
std::string_view object_text(ondemand::object& object) {
  const std::string_view text = trim(must(object.raw_json()));
  if (!is_legal_object(text)) refuse("an object is no legal JSON");
  return text;
}

std::string_view members_of(ondemand::value& value, base::Arena& arena) {
  ondemand::object object = must(value.get_object());
  const std::string_view text = object_text(object);
  return arena.copy(trim(text.substr(1, text.size() - 2)));
}

class Visit {
 public:
  Visit(Detail detail, model::Batch& out) : out_(out), detail_(detail) {}
  void document(ondemand::document& document);

 private:
  void spans(ondemand::array list);
  void span(ondemand::object object);
  void span_field(std::size_t key, ondemand::value& value, model::Span& span);
  void rest_of_span(std::size_t key, std::string_view token, ondemand::value& value, model::Span& span);
  void mark_ids(ondemand::array list, model::Span& span);
  void marks(ondemand::array list);
  void mark(ondemand::object object);
  void mark_value(std::string_view type, std::string_view token, model::Mark& mark);
  void snapshots(ondemand::array list);

  model::Batch& out_;
  Detail detail_;
  RecentTexts names_;
  std::size_t expected_span_key_ = 0;
  std::size_t expected_mark_key_ = 0;
};

enum SpanKey : std::size_t {
  kId, kName, kParentId, kIndex, kStart, kEnd, kCpu, kGpu, kMemory, kThread, kPid, kRank, kAttrs, kMarkIds, kSpanKeys
};
constexpr Keys<kSpanKeys> kSpan({"id\"", "name\"", "parent_id\"", "index\"", "start_ns\"", "end_ns\"", "cpu_ns\"",
                                 "gpu_ns\"", "memory_peak_bytes\"", "thread_id\"", "pid\"", "rank\"", "attrs\"",
                                 "mark_ids\""});

enum MarkKey : std::size_t { kMarkId, kSpanId, kMarkName, kValueType, kValue, kMarkAttrs, kTime, kKind, kMarkKeys };
constexpr Keys<kMarkKeys> kMark({"id\"", "span_id\"", "name\"", "value_type\"", "value\"", "attrs\"", "ts_ns\"",
                                 "kind\""});

enum BatchKey : std::size_t { kSchema, kSdk, kBatchId, kCreated, kSpans, kMarks, kSnapshots, kBatchKeys };
constexpr Keys<kBatchKeys> kBatch({"schema_version\"", "sdk_version\"", "batch_id\"", "created_ns\"", "spans\"",
                                   "marks\"", "snapshots\""});

void Visit::document(ondemand::document& document) {
  std::int64_t schema = 0;
  std::size_t expected = 0;
  ondemand::object object = must(document.get_object());
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    switch (kBatch.find(field.key().raw(), expected)) {
      case kSchema: schema = integer_of(token); break;
      case kSdk: unescape(string_of(token), out_.arena, out_.sdk_version); break;
      case kBatchId: out_.batch_id = id_of(token); break;
      case kCreated: out_.created_ns = integer_of(token); break;
      case kSpans: spans(must(value.get_array())); break;
      case kMarks:
        if (detail_ == Detail::kAll) marks(must(value.get_array()));
        break;
      case kSnapshots:
        if (detail_ == Detail::kAll) snapshots(must(value.get_array()));
        break;
      default: break;
    }
    if (schema > model::kSchemaVersion) throw Fault{EPROTO, "its schema_version is newer than this program"};
  }
  if (schema < 1) refuse("it has no schema_version");
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) refuse("something follows the batch");
}

void Visit::spans(ondemand::array list) {
  for (auto element : list) span(must(must(std::move(element)).get_object()));
}

void Visit::span(ondemand::object object) {
  model::Span& span = out_.spans.emplace_back();
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    span_field(kSpan.find(field.key().raw(), expected_span_key_), value, span);
  }
  if (!span.id || span.name.data() == nullptr) refuse("a span has no id or no name");
}

void Visit::span_field(std::size_t key, ondemand::value& value, model::Span& span) {
  const std::string_view token = token_of(value);
  switch (key) {
    case kId: span.id = id_of(token); break;
    case kName: span.name = names_.get(string_of(token), out_.arena); break;
    case kParentId: span.parent_id = id_of(token); break;
    case kIndex: span.index = optional_of(token); break;
    case kStart: span.start_ns = integer_of(token); break;
    case kEnd: span.end_ns = token.starts_with('n') ? model::kNone : integer_of(token); break;
    case kGpu: span.gpu_ns = optional_of(token); break;
    case kRank: span.rank = small_of(token); break;
    default:
      if (detail_ == Detail::kAll) rest_of_span(key, token, value, span);
  }
}

void Visit::rest_of_span(std::size_t key, std::string_view token, ondemand::value& value, model::Span& span) {
  switch (key) {
    case kCpu: span.cpu_ns = optional_of(token); break;
    case kMemory: span.memory_peak_bytes = optional_of(token); break;
    case kThread: span.thread_id = thread_of(token); break;
    case kPid: span.pid = small_of(token); break;
    case kAttrs: span.attrs = members_of(value, out_.arena); break;
    case kMarkIds: mark_ids(must(value.get_array()), span); break;
    default: break;
  }
}

void Visit::mark_ids(ondemand::array list, model::Span& span) {
  span.first_mark_id = static_cast<std::uint32_t>(out_.mark_ids.size());
  for (auto element : list) {
    auto&& value = must(std::move(element));
    out_.mark_ids.push_back(id_of(token_of(value)));
  }
  span.mark_id_count = static_cast<std::uint32_t>(out_.mark_ids.size()) - span.first_mark_id;
}

void Visit::marks(ondemand::array list) {
  for (auto element : list) mark(must(must(std::move(element)).get_object()));
}

void Visit::mark(ondemand::object object) {
  model::Mark& mark = out_.marks.emplace_back();
  std::string_view type, token;  // the type may stand behind the value
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view text = token_of(value);
    switch (kMark.find(field.key().raw(), expected_mark_key_)) {
      case kMarkId: mark.id = id_of(text); break;
      case kSpanId: mark.span_id = string_of(text) == "root" ? base::Id{} : id_of(text); break;
      case kMarkName: mark.name = names_.get(string_of(text), out_.arena); break;
      case kValueType: type = string_of(text); break;
      case kValue: token = trim(text); break;
      case kMarkAttrs: mark.attrs = members_of(value, out_.arena); break;
      case kTime: mark.ts_ns = integer_of(text); break;
      case kKind: mark.summary = string_of(text) == "summary"; break;
      default: break;
    }
  }
  if (!mark.id || mark.name.data() == nullptr) refuse("a mark has no id or no name");
  mark_value(type, token, mark);
}

// Takes value_type at its word only where the value agrees.
void Visit::mark_value(std::string_view type, std::string_view token, model::Mark& mark) {
  if (token == "true" || token == "false") {
    mark.type = model::ValueType::kBool;
    mark.integer = token == "true";
  } else if (token.starts_with('"')) {
    const std::string_view body = string_of(token);
    const bool number = body == "NaN" || body == "Infinity" || body == "-Infinity";
    if (type == "float" && number) {
      mark.type = model::ValueType::kFloat;
      mark.real = body == "NaN" ? std::numeric_limits<double>::quiet_NaN()
                                : std::numeric_limits<double>::infinity() * (body.front() == '-' ? -1 : 1);
    } else {
      mark.type = model::ValueType::kString;
      if (!unescape(body, out_.arena, mark.text)) refuse("a string has an illegal escape");
    }
  } else if (type == "int" && parse_integer(token, mark.integer)) {
    mark.type = model::ValueType::kInt;
  } else if (!parse_real(token, mark.real)) {
    refuse("a mark has no value");
  } else if (type == "int" && token.find_first_of(".eE") == std::string_view::npos) {
    mark.type = model::ValueType::kInt;
    mark.text = out_.arena.copy(token);
  }
}

void Visit::snapshots(ondemand::array list) {
  for (auto element : list) {
    ondemand::object object = must(must(std::move(element)).get_object());
    model::Snapshot& snapshot = out_.snapshots.emplace_back();
    for (auto result : object) {
      auto&& field = must(std::move(result));
      ondemand::value& value = field.value();
      const std::string_view token = token_of(value);
      if (field.key() == "id") snapshot.id = id_of(token);
      if (field.key() == "span_id") snapshot.span_id = id_of(token);
    }
    must(object.reset());
    snapshot.json = out_.arena.copy(object_text(object));
  }
}

}  // namespace

BatchParser::BatchParser() : state_(std::make_unique<State>()) {}
BatchParser::~BatchParser() = default;

Fault BatchParser::parse(std::string_view json, Detail detail, model::Batch& out) {
  try {
    auto document = must(state_->parser.iterate(json.data(), json.size(), json.size() + kPadding));
    Visit(detail, out).document(document);
    return {};
  } catch (const Refusal& refusal) {
    return {EINVAL, refusal.reason};
  } catch (const Fault& fault) {
    return fault;
  }
}

}  // namespace sonde::spool
