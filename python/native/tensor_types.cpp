#include "python/native/tensor_types.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace sonde::native {

namespace {

using snapshot::Element;

constexpr TensorType kTypes[] = {
    {"float32", Element::kFloat32},
    {"bfloat16", Element::kBFloat16},
    {"float16", Element::kFloat16},
    {"float64", Element::kFloat64},
    {"float8_e4m3fn", Element::kFloat8E4M3FN},
    {"float8_e5m2", Element::kFloat8E5M2},
    {"float8_e4m3fnuz", Element::kFloat8E4M3FNUZ},
    {"float8_e5m2fnuz", Element::kFloat8E5M2FNUZ},
    {"int64", Element::kInt64},
    {"int32", Element::kInt32},
    {"int16", Element::kInt16},
    {"int8", Element::kInt8},
    {"uint64", Element::kUInt64},
    {"uint32", Element::kUInt32},
    {"uint16", Element::kUInt16},
    {"uint8", Element::kUInt8},
    {"bool", Element::kBool},
    {"complex32", Element::kFloat16, true},
    {"complex64", Element::kFloat32, true},
    {"complex128", Element::kFloat64, true},
};

}  // namespace

const TensorType* find_type(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kTypes, name, &TensorType::name);
  return found == std::end(kTypes) ? nullptr : found;
}

const TensorType* find_type(const DlTensor& tensor) noexcept {
  struct Code {
    std::uint8_t code, bits;
    std::string_view name;
  };
  static constexpr Code kCodes[] = {
      {2, 32, "float32"},       {4, 16, "bfloat16"},
      {2, 16, "float16"},       {2, 64, "float64"},
      {10, 8, "float8_e4m3fn"}, {11, 8, "float8_e4m3fnuz"},
      {12, 8, "float8_e5m2"},   {13, 8, "float8_e5m2fnuz"},
      {0, 64, "int64"},         {0, 32, "int32"},
      {0, 16, "int16"},         {0, 8, "int8"},
      {1, 64, "uint64"},        {1, 32, "uint32"},
      {1, 16, "uint16"},        {1, 8, "uint8"},
      {6, 8, "bool"},
  };
  for (const Code& known : kCodes)
    if (known.code == tensor.code && known.bits == tensor.bits && tensor.lanes == 1)
      return find_type(known.name);
  return nullptr;
}

std::string_view name_of_format(const char* format) noexcept {
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return "unknown";
  switch (*format) {
    case 'f':
      return "float32";
    case 'd':
      return "float64";
    case 'e':
      return "float16";
    case '?':
      return "bool";
    case 'b':
      return "int8";
    case 'B':
      return "uint8";
    case 'h':
      return "int16";
    case 'H':
      return "uint16";
    case 'i':
      return "int32";
    case 'I':
      return "uint32";
    case 'l':
    case 'q':
      return "int64";
    case 'L':
    case 'Q':
      return "uint64";
    default:
      return "unknown";
  }
}

}  // namespace sonde::native
