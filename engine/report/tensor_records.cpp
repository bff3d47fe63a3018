// The lines of tensors for other programs: CSV and JSON.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "engine/analysis/tensors.h"
#include "engine/model/tensor_fields.h"
#include "engine/model/trace.h"
#include "engine/report/tensor_fields.h"
#include "engine/report/tensors.h"

namespace sonde::report {

namespace {

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

std::string tensors_csv_header() {
  std::string out = "run,epoch,rank,tensor,shape,dtype";
  for (const auto& number : model::kTensorNumbers) out.append(",").append(number.key.name());
  for (const auto& count : model::kTensorCounts) out.append(",").append(count.key.name());
  return out + ",unavailable,pid\n";
}

void append_tensor_csv(std::string& out, const analysis::TensorLine& line) {
  const model::TensorStats& tensor = line.tensor;
  out += run_of(line) + ',' + integer(line.epoch->index) + ',' + integer(line.epoch->rank);
  const std::string shape = shape_of(line);
  for (const std::string_view text : {tensor.name, std::string_view(shape), tensor.dtype}) {
    out += ',';
    append_csv_text(out, text);
  }
  for (const auto& number : model::kTensorNumbers)
    out += tensor.known ? fmt::format(",{}", tensor.*number.member) : ",";
  for (const auto& count : model::kTensorCounts) out += ',' + integer(tensor.*count.member);
  out += ',';
  append_csv_text(out, tensor.unavailable);
  out += ',' + integer(line.epoch->pid) + '\n';
}

void append_tensor_json(std::string& out, const model::Epoch& epoch, std::string_view record) {
  out += fmt::format("{{\"epoch\":{},\"run\":{},\"rank\":{}", or_null(integer(epoch.index)),
                     epoch.run == 0 ? "null" : std::to_string(epoch.run),
                     or_null(integer(epoch.rank)));
  record.remove_prefix(1);
  const std::size_t members = record.find_first_not_of(" \t\r\n");
  if (record[members] != '}') out += ',';
  out += record;
}

void TensorJsonArray::add(const model::Epoch& epoch, std::string_view record) {
  piece_ += empty_ ? "\n" : ",\n";
  empty_ = false;
  append_tensor_json(piece_, epoch, record);
}

std::string Pieces::take_full_piece() {
  constexpr std::size_t kPiece = 1u << 20u;  // bytes
  return piece_.size() < kPiece ? std::string() : std::exchange(piece_, {});
}

std::string TensorJsonArray::finish() { return std::exchange(piece_, {}) + "\n]\n"; }

}  // namespace sonde::report
