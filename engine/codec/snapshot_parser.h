// The snapshots of a batch. Includes simdjson: for the parsers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/codec/detail.h"
#include "engine/codec/json_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

class SnapshotParser {
 public:
  SnapshotParser(Detail detail, RecentTexts& names, model::Batch& out)
      : out_(out), names_(names), detail_(detail) {}
  void parse(ondemand::array list);

 private:
  // "stats", or "finite" inside it.
  enum class Part : std::uint8_t { kAll, kFinite };

  void one(ondemand::object object);
  void look_inside(std::size_t key, std::string_view token, ondemand::value& value);
  void shape(ondemand::array list, model::TensorStats& tensor);
  void stats(ondemand::object object, Part part, model::TensorStats& tensor);
  static void names(ondemand::object object, model::TensorStats& named);
  void histogram(ondemand::object object);
  static void count_non_finite(std::int64_t count, model::TensorStats& tensor);
  static void take_finite(const model::TensorStats& finite, model::TensorStats& tensor);
  void attrs(ondemand::object object, model::TensorStats& tensor);
  std::string_view text(std::string_view token);

  model::Batch& out_;
  RecentTexts& names_;
  Detail detail_;
  std::size_t expected_ = 0;
};

}  // namespace sonde::codec
