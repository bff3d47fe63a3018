// Taking a capture: the statistics of tensors at one moment, and the tensors themselves if wanted.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/snapshot/blob_copy.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/cuda_copy.h"
#include "engine/snapshot/statistics.h"
#include "python/native/parameters.h"
#include "python/native/tensors.h"

namespace sonde::native {

// A capture that does not belong to an epoch yet.
struct Captured {
  snapshot::Capture capture;
  std::unique_ptr<snapshot::BlobSource> blob;
  std::vector<std::string> names;  // of the parameters
};

struct Read {
  TensorReader reader;
  Ref value;          // what is read: the tensor, or something made from it
  bool whole = true;  // `value` is all of the tensor, unchanged
};

// Makes a capture of a model's tensors. They are listed and read with the GIL, and measured without
// it. The methods are to be called in this order.
class Capturing {
 public:
  Capturing(std::vector<Parameter> parameters, bool gradients)
      : parameters_(std::move(parameters)),
        reads_(std::make_unique<Read[]>(parameters_.size())),
        catalogue_(std::make_shared<snapshot::Catalogue>(parameters_.size())),
        statistics_(parameters_.size()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      (*catalogue_)[i].name = parameters_[i].name + (gradients ? ".grad" : "");
    }
    capture_.kind = gradients ? snapshot::Kind::kGradients : snapshot::Kind::kWeights;
  }

  // `resolve` is asked about tensors that are not plain memory: (tensor, is it a part of one?).
  void read(nanobind::handle resolve);
  void measure(unsigned threads);
  // `fallback` measures what lies on other devices.
  void measure_elsewhere(nanobind::handle fallback);
  // Copies the tensors that can be read, for a file.
  void copy();
  Captured finish();

 private:
  std::optional<snapshot::Placed> place(Read& read);
  std::vector<std::size_t> measure_on_cuda(const std::vector<std::size_t>& here);
  void read_value(std::size_t i, PyObject* value, bool again);
  void take_resolved(std::size_t i, nanobind::handle resolved);
  void describe(std::size_t i);

  std::vector<Parameter> parameters_;
  std::unique_ptr<Read[]> reads_;
  std::shared_ptr<snapshot::Catalogue> catalogue_;
  std::vector<std::optional<snapshot::Statistics>> statistics_;
  std::vector<std::size_t> unresolved_, elsewhere_;
  snapshot::Capture capture_;
  std::unique_ptr<snapshot::BlobSource> blob_;
};

}  // namespace sonde::native
