#include "engine/snapshot/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/base/json_writer.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

namespace {

std::size_t width(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64" || type == kComplexFloat32) return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  return 1;
}

// Half of a surrogate pair may be part of a Python string but not of the format's JSON.
std::string readable(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool half = name[i] == '\xED' && i + 2 < name.size() && (name[i + 1] & 0x20) != 0;
    if (half) {
      out += "\xEF\xBF\xBD";
      i += 2;
    } else {
      out += name[i];
    }
  }
  return out;
}

class Names {
 public:
  std::string unique(std::string_view wanted) {
    const std::string name = readable(wanted);
    std::string mine = name;
    for (int n = 2; !taken_.insert(mine).second; ++n) mine = name + "#" + std::to_string(n);
    return mine;
  }

 private:
  std::unordered_set<std::string> taken_{"__metadata__"};
};

}  // namespace

std::uint64_t SafeTensor::elements() const noexcept {
  std::uint64_t all = 1;
  for (const std::int64_t size : shape) all *= static_cast<std::uint64_t>(size);
  return all;
}

std::uint64_t SafeTensor::bytes() const noexcept { return elements() * width(type); }

std::string_view safe_type(Element element) noexcept {
  switch (element) {
    case Element::kFloat64:
      return "F64";
    case Element::kFloat32:
      return "F32";
    case Element::kFloat16:
      return "F16";
    case Element::kBFloat16:
      return "BF16";
    case Element::kFloat8E4M3FN:
      return "F8_E4M3";
    case Element::kFloat8E5M2:
      return "F8_E5M2";
    case Element::kFloat8E4M3FNUZ:
      return "F8_E4M3FNUZ";
    case Element::kFloat8E5M2FNUZ:
      return "F8_E5M2FNUZ";
    case Element::kInt64:
      return "I64";
    case Element::kInt32:
      return "I32";
    case Element::kInt16:
      return "I16";
    case Element::kInt8:
      return "I8";
    case Element::kUInt64:
      return "U64";
    case Element::kUInt32:
      return "U32";
    case Element::kUInt16:
      return "U16";
    case Element::kUInt8:
      return "U8";
    case Element::kBool:
      return "BOOL";
  }
  return "U8";
}

std::vector<std::size_t> file_order(std::span<const SafeTensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return width(tensors[a].type) > width(tensors[b].type);
  });
  return order;
}

std::string safetensors_head(std::span<const SafeTensor> tensors) {
  base::JsonWriter json;
  json.raw(R"({"__metadata__":{"format":"pt"})");
  Names names;
  std::uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    json.raw(',');
    json.string(names.unique(tensor.name));
    json.raw(":{\"dtype\":");
    json.string(tensor.type);
    json.raw(",\"shape\":[");
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i != 0) json.raw(',');
      json.number(tensor.shape[i]);
    }
    json.raw("],\"data_offsets\":[");
    json.number(at);
    json.raw(',');
    at += tensor.bytes();
    json.number(at);
    json.raw("]}");
  }
  json.raw('}');
  while (json.size() % 8 != 0) json.raw(' ');
  std::string head(8, '\0');
  for (unsigned i = 0; i < 8; ++i)
    head[i] = static_cast<char>(std::uint64_t{json.size()} >> (8 * i));  // little-endian
  head += json.view();
  return head;
}

}  // namespace sonde::snapshot
