#include "engine/snapshot/cuda.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/cuda_driver.h"
#include "engine/snapshot/capture.h"
#include "engine/snapshot/cuda_device.h"
#include "engine/snapshot/cuda_layout.h"
#include "engine/snapshot/cuda_state.h"
#include "engine/snapshot/statistics.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

using base::CudaCalls;
using base::CudaDriver;
using base::kCuSuccess;

namespace {

static_assert(cuda::kBins == Statistics::kBins);

constexpr std::size_t kAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where in a workspace what lies. Inputs and outputs are also on the host.
struct Plan {
  std::size_t inputs = 0, outputs, edges, moments, end;

  Plan(std::size_t tensors, std::size_t tiles)
      : outputs(aligned(tensors * sizeof(cuda::Input))),
        edges(outputs + aligned(tensors * sizeof(cuda::Output))),
        moments(edges + aligned(tensors * sizeof(cuda::Edges))),
        end(moments + aligned(tiles * sizeof(cuda::Moments))) {}
};

// The order of the elements does not matter, so a tensor whose elements fill a run of memory in
// whatever order is that run. False: too many dimensions.
bool describe(const Tensor& tensor, cuda::Input& input) {
  struct Dimension {
    std::int64_t size, stride;
  };
  Dimension dimensions[64];
  std::size_t rank = 0;
  std::int64_t count = 1, stride = 1;
  if (tensor.rank > std::size(dimensions)) return false;
  for (std::uint32_t d = tensor.rank; d-- > 0;) {
    const std::int64_t size = tensor.sizes[d];
    if (size != 1)
      dimensions[rank++] = {size, tensor.strides == nullptr ? stride : tensor.strides[d]};
    stride *= size;
    count *= size;
  }
  input.data = reinterpret_cast<std::uintptr_t>(tensor.data);
  input.count = count;
  input.element = tensor.element;
  input.rank = 0;
  if (count == 0) return true;
  std::sort(dimensions, dimensions + rank,
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  // Dimensions that continue each other become one.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (kept != 0 &&
        dimensions[kept - 1].size * dimensions[kept - 1].stride == dimensions[i].stride) {
      dimensions[kept - 1].size *= dimensions[i].size;
    } else {
      dimensions[kept++] = dimensions[i];
    }
  }
  if (kept == 0 || (kept == 1 && dimensions[0].stride == 1)) return true;
  if (kept > cuda::kMaxRank) return false;
  input.rank = static_cast<unsigned char>(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    input.sizes[kept - 1 - i] = dimensions[i].size;
    input.strides[kept - 1 - i] = dimensions[i].stride;
  }
  return true;
}

// What the kernels are told of the tensors of a pass.
struct Inputs {
  std::vector<cuda::Input> all;
  std::size_t tiles = 0;
};

// False: one of the tensors cannot be measured.
bool describe(std::span<const Tensor> tensors, Inputs& out) {
  out.all.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    cuda::Input input{};
    if (!describe(tensor, input)) return false;
    input.first_tile = static_cast<unsigned>(out.tiles);
    out.tiles += static_cast<std::size_t>((input.count + cuda::kTile - 1) / cuda::kTile);
    out.all.push_back(input);
  }
  return true;
}

// Starts the kernels on our stream, after all that the stream of the training holds now. The
// results are copied to the host. False: something could not be started.
bool launch(CudaDevice& gpu, Workspace& space, const Plan& plan, const Inputs& inputs,
            base::CuStream training) {
  const CudaDriver& driver = gpu.driver();
  const base::CuStream own = gpu.stream();
  const std::size_t tensors = inputs.all.size(), input_bytes = tensors * sizeof(cuda::Input);
  std::memcpy(space.host, inputs.all.data(), input_bytes);
  base::CuPointer at_inputs = space.device, at_outputs = space.device + plan.outputs,
                  at_edges = space.device + plan.edges, at_moments = space.device + plan.moments;
  auto count = static_cast<int>(tensors);
  bool fine = driver.event_record(space.begun, training) == kCuSuccess &&
              driver.stream_wait_event(own, space.begun, 0) == kCuSuccess &&
              driver.copy_to_device(at_inputs, space.host, input_bytes, own) == kCuSuccess;
  const auto start = [&](base::CuFunction kernel, std::size_t blocks, auto&... arguments) {
    void* list[] = {&arguments...};
    fine = fine && (blocks == 0 ||
                    driver.launch(kernel, static_cast<unsigned>(blocks), 1, 1, cuda::kThreads, 1, 1,
                                  0, own, list, nullptr) == kCuSuccess);
  };
  const CudaDevice::Kernels& kernels = gpu.kernels();
  start(kernels.measure_moments, inputs.tiles, at_inputs, count, at_moments);
  start(kernels.combine_moments, tensors, at_inputs, at_moments, at_outputs, at_edges);
  start(kernels.measure_histogram, inputs.tiles, at_inputs, count, at_edges, at_outputs);
  return fine && driver.copy_to_host(space.host + plan.outputs, at_outputs,
                                     tensors * sizeof(cuda::Output), own) == kCuSuccess;
}

// Makes the stream of the training wait until our stream is done with the tensors.
void hand_over(CudaDevice& gpu, Workspace& space, base::CuStream training) {
  space.launched = gpu.driver().event_record(space.done, gpu.stream()) == kCuSuccess;
  gpu.driver().stream_wait_event(training, space.done, 0);
}

Statistics statistics_of(const cuda::Output& output) {
  Statistics result;
  result.count = output.finite;
  result.nan_count = output.nan;
  result.inf_count = output.inf;
  result.minus_inf_count = output.minus_inf;
  result.zero_count = output.zero;
  if (output.finite == 0) return result;
  const auto count = static_cast<double>(output.finite);
  result.min = output.min;
  result.max = output.max;
  // The mean lies between them, rounding aside.
  result.mean = std::clamp(output.mean, output.min, output.max);
  if (result.min != result.max) result.std = std::sqrt(output.squares / count) / output.unit;
  result.norm = std::hypot(result.mean, result.std) * std::sqrt(count);
  std::copy(std::begin(output.counts), std::end(output.counts), result.counts.begin());
  if (output.counted != 0) result.counts[0] -= output.nan + output.inf;
  return result;
}

}  // namespace

CudaState prepare_cuda(int device) noexcept {
  CudaDevice* found = CudaDevice::of(device);
  return found == nullptr ? CudaState::kUnavailable : found->prepare(false);
}

CudaState await_cuda(int device) noexcept {
  CudaDevice* found = CudaDevice::of(device);
  return found == nullptr ? CudaState::kUnavailable : found->prepare(true);
}

std::string cuda_problem(int device) {
  const CudaDevice* found = CudaDevice::of(device);
  return found == nullptr ? "no CUDA driver in this process" : found->problem();
}

bool cuda_can_measure(const Tensor& tensor) noexcept {
  cuda::Input input;
  return describe(tensor, input);
}

bool cuda_stream_usable(int device, void* stream) noexcept {
  CudaDevice* found = CudaDevice::of(device);
  if (found == nullptr) return false;
  const CudaCalls calls(found->driver(), found->context());
  int capturing = base::kCuNotCapturing;
  return found->driver().stream_is_capturing(static_cast<base::CuStream>(stream), &capturing) ==
             kCuSuccess &&
         capturing == base::kCuNotCapturing;
}

struct CudaStatistics::Run {
  CudaDevice* device;
  std::unique_ptr<Workspace> space;
  std::vector<std::size_t> records;
  std::size_t outputs;  // where they lie on the host
};

CudaStatistics::CudaStatistics() = default;

CudaStatistics::~CudaStatistics() {
  for (std::unique_ptr<Run>& run : runs_) {
    if (run->space) run->device->give(std::move(run->space));
  }
}

bool CudaStatistics::begin(int device, void* stream, std::span<const Tensor> tensors,
                           std::vector<std::size_t> records) noexcept {
  CudaDevice* gpu = CudaDevice::of(device);
  if (gpu == nullptr || gpu->prepare(true) != CudaState::kReady) return false;
  const CudaCalls calls(gpu->driver(), gpu->context());
  const auto training = static_cast<base::CuStream>(stream);
  try {
    Inputs inputs;
    if (!describe(tensors, inputs)) return false;
    if (inputs.all.empty()) return true;
    const Plan plan(inputs.all.size(), inputs.tiles);
    runs_.reserve(runs_.size() + 1);
    auto run = std::make_unique<Run>();
    run->device = gpu;
    run->records = std::move(records);
    run->outputs = plan.outputs;
    run->space = gpu->take(plan.end, plan.edges);
    if (!run->space) return false;
    const bool fine = launch(*gpu, *run->space, plan, inputs, training);
    // Even where something failed, the work that was started still uses the memory.
    hand_over(*gpu, *run->space, training);
    if (!run->space->launched) {
      run->space.release();  // leaked: it is not known when the device is done with it
      return false;
    }
    if (!fine) {
      gpu->give(std::move(run->space));
      return false;
    }
    runs_.push_back(std::move(run));
    return true;
  } catch (...) {
    return false;  // out of memory
  }
}

bool CudaStatistics::ready() noexcept {
  return std::all_of(runs_.begin(), runs_.end(), [](const std::unique_ptr<Run>& run) {
    const CudaCalls calls(run->device->driver(), run->device->context());
    return run->device->driver().event_query(run->space->done) != base::kCuNotReady;
  });
}

void CudaStatistics::complete(Capture& capture, bool) noexcept {
  for (std::unique_ptr<Run>& run : runs_) {
    const CudaDriver& driver = run->device->driver();
    bool done;
    {
      const CudaCalls calls(driver, run->device->context());
      done = driver.event_query(run->space->done) == kCuSuccess;
    }
    for (std::size_t i = 0; done && i < run->records.size(); ++i) {
      cuda::Output output;
      std::memcpy(&output, run->space->host + run->outputs + i * sizeof output, sizeof output);
      if (run->records[i] < capture.statistics.size())
        capture.statistics[run->records[i]] = statistics_of(output);
    }
    run->device->give(std::move(run->space));
  }
  runs_.clear();
}

}  // namespace sonde::snapshot
