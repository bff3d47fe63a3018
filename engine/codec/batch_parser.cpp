#include "engine/codec/batch_parser.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/codec/detail.h"
#include "engine/codec/fault.h"
#include "engine/codec/json_fields.h"
#include "engine/codec/mark_parser.h"
#include "engine/codec/snapshot_parser.h"
#include "engine/codec/span_parser.h"
#include "engine/model/trace.h"

namespace sonde::codec {

static_assert(BatchParser::kPadding >= simdjson::SIMDJSON_PADDING);

struct BatchParser::State {
  ondemand::parser parser;
};

namespace {

class Visit {
 public:
  Visit(Detail detail, model::Batch& out) : out_(out), detail_(detail) {}
  void document(ondemand::document& document);

 private:
  model::Batch& out_;
  Detail detail_;
  RecentTexts names_;
};

enum BatchKey : std::size_t {
  kSchema,
  kSdk,
  kBatchId,
  kCreated,
  kSpans,
  kMarks,
  kSnapshots,
  kBatchKeys
};
constexpr Keys<kBatchKeys> kBatch({"schema_version\"", "sdk_version\"", "batch_id\"",
                                   "created_ns\"", "spans\"", "marks\"", "snapshots\""});

void Visit::document(ondemand::document& document) {
  std::int64_t schema = 0;
  std::size_t expected = 0;
  ondemand::object object = must(document.get_object());
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    switch (kBatch.find(field.key().raw(), expected)) {
      case kSchema:
        schema = integer_of(token);
        break;
      case kSdk:
        out_.sdk_version = names_.get(string_of(token), out_.arena);
        break;
      case kBatchId:
        out_.batch_id = id_of(token);
        break;
      case kCreated:
        out_.created_ns = integer_of(token);
        break;
      case kSpans:
        if (wants_spans(detail_)) SpanParser(detail_, names_, out_).parse(must(value.get_array()));
        break;
      case kMarks:
        if (wants_marks(detail_)) MarkParser(names_, out_).parse(must(value.get_array()));
        break;
      case kSnapshots:
        if (wants_tensors(detail_))
          SnapshotParser(detail_, names_, out_).parse(must(value.get_array()));
        break;
      default:
        break;
    }
    if (schema > model::kSchemaVersion) {
      refuse("its schema_version is newer than this program; read it with a newer version of sonde",
             EPROTO);
    }
  }
  if (schema < 1) refuse("it has no schema_version");
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (!at_end) refuse("something follows the batch");
}

}  // namespace

BatchParser::BatchParser() : state_(std::make_unique<State>()) {}
BatchParser::~BatchParser() = default;

Fault BatchParser::parse(std::string_view json, Detail detail, model::Batch& out) {
  try {
    auto document = must(state_->parser.iterate(json.data(), json.size(), json.size() + kPadding));
    Visit(detail, out).document(document);
    return {};
  } catch (const Fault& fault) {
    return fault;
  }
}

}  // namespace sonde::codec
