#include "engine/analysis/tensors.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/model/epochs.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

std::string_view TensorTable::keep(std::string_view text) { return *texts_.emplace(text).first; }

void TensorTable::add(model::Epoch& epoch, const model::TensorStats& tensor) {
  TensorLine& line = lines_.emplace_back(TensorLine{&epoch, epoch.records++, tensor});
  line.tensor.name = keep(tensor.name);
  line.tensor.shape = keep(tensor.shape);
  line.tensor.dtype = keep(tensor.dtype);
  line.tensor.unavailable = keep(tensor.unavailable);
}

void TensorTable::sort() {
  const auto key = [](const TensorLine& line) {
    return std::tuple(line.epoch->run, line.epoch->order, line.position, line.epoch->rank,
                      line.epoch->pid);
  };
  std::stable_sort(lines_.begin(), lines_.end(),
                   [&](const TensorLine& a, const TensorLine& b) { return key(a) < key(b); });
}

std::size_t TensorTable::keep_newest() {
  // The text of a name is kept once, so its address stands for it.
  const auto place = [](const TensorLine& line) {
    return std::pair(line.tensor.name.data(), line.epoch->rank);
  };
  const auto process = [](const TensorLine& line) {
    return std::tuple(line.tensor.name.data(), line.epoch->rank, line.epoch->run, line.epoch->pid);
  };
  std::map<decltype(place(lines_[0])), std::size_t> runs;
  std::map<decltype(process(lines_[0])), std::size_t> orders;
  for (const TensorLine& line : lines_) {
    std::size_t &run = runs[place(line)], &order = orders[process(line)];
    run = std::max(run, line.epoch->run);
    order = std::max(order, line.epoch->order);
  }
  const std::size_t gone = std::erase_if(lines_, [&](const TensorLine& line) {
    return line.epoch->run != runs[place(line)] || line.epoch->order != orders[process(line)];
  });
  const auto key = [](const TensorLine& line) {
    return std::tuple(line.epoch->run, line.position, line.epoch->rank, line.epoch->pid);
  };
  std::stable_sort(lines_.begin(), lines_.end(),
                   [&](const TensorLine& a, const TensorLine& b) { return key(a) < key(b); });
  return gone;
}

}  // namespace sonde::analysis
