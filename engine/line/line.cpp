#include "engine/line/line.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/non_finite.h"
#include "engine/model/trace.h"

namespace sonde::line {

using model::kNone;
using model::Mark;
using model::Span;
using model::ValueType;

namespace {

template <typename... Args>
void append_format(std::string& out, const char* format, Args... args) {
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof buffer, format, args...);
  out.append(buffer, static_cast<std::size_t>(length));
}

}  // namespace

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      append_format(out, "\\x%02x", byte);
    } else {
      out += c;
    }
  }
}

void append_label(std::string& out, const Span& span) {
  append_clean(out, span.name);
  if (span.index != kNone) append_format(out, "[%lld]", static_cast<long long>(span.index));
}

void append_duration(std::string& out, std::int64_t duration_ns) {
  if (duration_ns == kNone) {
    out += "open";
    return;
  }
  const std::int64_t us = duration_ns > 0 ? duration_ns / 1000 : 0;
  if (us < 1000) {
    append_format(out, "%lldus", static_cast<long long>(us));
  } else if (us < 1'000'000) {
    append_format(out, "%.1fms", static_cast<double>(us) / 1e3);
  } else {
    append_format(out, "%.2fs", static_cast<double>(us) / 1e6);
  }
}

void append_dispatch(std::string& out, std::int64_t device_ns) {
  out += " dispatch";
  if (device_ns == kNone) return;
  out += ", ";
  append_duration(out, device_ns);
  out += " on the device";
}

void append_value(std::string& out, const Mark& mark) {
  switch (mark.type) {
    case ValueType::kFloat:
      if (!std::isfinite(mark.real)) {
        out += base::non_finite_name(mark.real);
      } else if (const double size = std::fabs(mark.real);
                 size != 0 && (size < 1e-3 || size >= 1e15)) {
        append_format(out, "%.4g", mark.real);
      } else {
        append_format(out, "%.4f", mark.real);
      }
      break;
    case ValueType::kInt:
      if (mark.text.empty()) {
        append_format(out, "%lld", static_cast<long long>(mark.integer));
      } else {
        out += mark.text;
      }
      break;
    case ValueType::kBool:
      out += mark.integer != 0 ? "True" : "False";
      break;
    case ValueType::kString:
      append_clean(out, mark.text);
      break;
  }
}

void append_attrs(std::string& out, std::string_view attrs) {
  out += '{';
  append_clean(out, attrs);
  out += '}';
}

void append_line(std::string& out, const Span& span, std::span<const Mark* const> marks) {
  append_label(out, span);
  out += " - ";
  if (span.open() && span.seen_ns != kNone) out += span.left ? "left open, " : "running, ";
  append_duration(out, span.length_ns());
  if (span.dispatched()) append_dispatch(out, span.gpu_ns);
  if (marks.empty()) return;
  out += " {";
  for (const Mark* mark : marks) {
    if (mark != marks.front()) out += ", ";
    append_clean(out, mark->name);
    out += '=';
    append_value(out, *mark);
  }
  out += '}';
}

}  // namespace sonde::line
