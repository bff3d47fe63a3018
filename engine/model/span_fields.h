// The table of a span's fields: the name of each, its member of Span, its kind, and the forms of a
// span that have it. The encoder, the parser, the memory for trace(), the tree, the columns and the
// dicts and properties of Python walk this table, so a new field is a member of Span and a line
// here. The walk happens at compile time and leaves the same code as one written by hand for each
// field.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "engine/model/trace.h"

namespace sonde::model {

// The forms that a span takes. A form has the fields that name it, in the order of the table.
enum Form : unsigned {
  kSpool = 1,     // JSON of spool v1
  kTimings = 2,   // what is read of it where only times are wanted
  kTree = 4,      // JSON and dict of trace()
  kColumns = 8,   // Arrow
  kFrame = 16,    // the DataFrame
  kAutopsy = 32,  // a scope that a process left open, or has open
  kMemory = 64,   // ids and numbers that the memory for trace() holds for each span
};

enum class Kind {
  kId,
  kParent,    // an id; the null id stands for none
  kName,      // text
  kNumber,    // always there; in a file anything else is a fault
  kEnd,       // a number or kNone; in a file anything else is a fault
  kOptional,  // a number or kNone; in a file anything else counts as none
  kMembers,   // JSON members, without their braces
  // These have no member of Span; the code that makes the form computes them.
  kWall,
  kMarkIds,
  kMarkCount,
  kMarks,
  kDepth,
  kChildren,
};

template <std::size_t N>
struct FieldName {
  char text[N];
  consteval FieldName(const char (&name)[N]) {  // NOLINT: a literal becomes one
    std::copy_n(name, N, text);
  }
};

template <FieldName kText, auto kMemberOf, Kind kKindOf, unsigned kFormsOf>
struct Field {
  static constexpr Kind kKind = kKindOf;
  static constexpr unsigned kForms = kFormsOf;
  static constexpr std::string_view kName{kText.text, sizeof kText.text - 1};
  static constexpr std::string_view key() noexcept { return {kKey.data(), kKey.size()}; }  // ,"x":
  // As it stands in a file after the first quote: x"
  static constexpr std::string_view quoted() noexcept { return key().substr(2, kName.size() + 1); }
  static constexpr const auto& of(const Span& span) noexcept { return span.*kMemberOf; }
  static constexpr auto& of(Span& span) noexcept { return span.*kMemberOf; }

 private:
  static constexpr auto kKey = [] {
    std::array<char, kName.size() + 4> key = {',', '"'};
    std::copy(kName.begin(), kName.end(), key.begin() + 2);
    key[key.size() - 2] = '"';
    key[key.size() - 1] = ':';
    return key;
  }();
};

template <typename... Fields>
struct FieldList {};

// A field that two forms have at different places has two lines.
using SpanFields = FieldList<
    Field<"id", &Span::id, Kind::kId,
          kSpool | kTimings | kTree | kColumns | kFrame | kAutopsy | kMemory>,
    Field<"name", &Span::name, Kind::kName, kSpool | kTimings>,
    Field<"parent_id", &Span::parent_id, Kind::kParent,
          kSpool | kTimings | kTree | kColumns | kFrame | kAutopsy | kMemory>,
    Field<"name", &Span::name, Kind::kName, kTree | kColumns | kFrame | kAutopsy>,
    Field<"index", &Span::index, Kind::kOptional,
          kSpool | kTimings | kTree | kColumns | kFrame | kAutopsy | kMemory>,
    Field<"start_ns", &Span::start_ns, Kind::kNumber,
          kSpool | kTimings | kTree | kColumns | kAutopsy | kMemory>,
    Field<"end_ns", &Span::end_ns, Kind::kEnd,
          kSpool | kTimings | kTree | kColumns | kAutopsy | kMemory>,
    Field<"wall_us", nullptr, Kind::kWall, kTree | kColumns | kFrame>,
    Field<"cpu_ns", &Span::cpu_ns, Kind::kOptional, kSpool | kTree | kColumns | kFrame | kMemory>,
    Field<"gpu_ns", &Span::gpu_ns, Kind::kOptional,
          kSpool | kTimings | kTree | kColumns | kFrame | kMemory>,
    Field<"memory_peak_bytes", &Span::memory_peak_bytes, Kind::kOptional,
          kSpool | kTree | kColumns | kFrame | kMemory>,
    Field<"thread_id", &Span::thread_id, Kind::kNumber, kSpool | kColumns | kAutopsy | kMemory>,
    Field<"pid", &Span::pid, Kind::kNumber, kSpool | kTimings | kTree | kColumns>,
    Field<"rank", &Span::rank, Kind::kNumber, kSpool | kTimings | kTree | kColumns>,
    Field<"mark_count", nullptr, Kind::kMarkCount, kColumns | kFrame>,
    Field<"depth", nullptr, Kind::kDepth, kColumns | kFrame>,
    Field<"start_ns", &Span::start_ns, Kind::kNumber, kFrame>,
    Field<"attrs", &Span::attrs, Kind::kMembers,
          kSpool | kTimings | kTree | kColumns | kFrame | kAutopsy>,
    Field<"mark_ids", nullptr, Kind::kMarkIds, kSpool>,
    Field<"marks", nullptr, Kind::kMarks, kTree | kColumns | kFrame>,
    Field<"children", nullptr, Kind::kChildren, kTree>>;

namespace detail {

template <unsigned kForm, typename One, typename Visit>
constexpr void visit_if(Visit& visit) {
  if constexpr ((One::kForms & kForm) != 0) visit(One{});
}

template <unsigned kForm, typename Visit, typename... Fields>
constexpr void visit_all(FieldList<Fields...>, Visit& visit) {
  (visit_if<kForm, Fields>(visit), ...);
}

}  // namespace detail

// Calls visit(Field{}) for each field of a form, in order.
template <unsigned kForm, typename Visit>
constexpr void for_each_field(Visit&& visit) {
  detail::visit_all<kForm>(SpanFields{}, visit);
}

template <unsigned kForm>
constexpr std::size_t field_count() {
  std::size_t count = 0;
  for_each_field<kForm>([&](auto) { ++count; });
  return count;
}

// The place of a field in a form.
template <unsigned kForm>
constexpr std::size_t place_of_field(std::string_view name) {
  std::size_t at = 0, found = field_count<kForm>();
  for_each_field<kForm>([&]<typename One>(One) {
    if (One::kName == name) found = at;
    ++at;
  });
  return found;
}

// Calls visit for the field at this place of a form; does nothing where the form is shorter.
template <unsigned kForm, typename Visit>
constexpr void visit_field_at(std::size_t place, Visit&& visit) {
  std::size_t at = 0;
  for_each_field<kForm>([&](auto field) {
    if (at++ == place) visit(field);
  });
}

// Elapsed microseconds; kNone where the length is not known.
inline std::int64_t wall_us(const Span& span) noexcept {
  const std::int64_t length = span.length_ns();
  return length == kNone ? kNone : length / 1000;
}

}  // namespace sonde::model
