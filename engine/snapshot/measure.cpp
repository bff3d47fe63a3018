#include "engine/snapshot/measure.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "engine/snapshot/kernels.h"
#include "engine/snapshot/statistics.h"
#include "engine/snapshot/tensor.h"
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "engine/snapshot/job.h"
#include "engine/snapshot/pool.h"
#include "engine/snapshot/usable_kernels.h"

namespace sonde::snapshot {

namespace {

// Measuring fewer bytes than this takes less time than starting and joining threads.
constexpr std::uint64_t kAlone = 1 << 20;
// Small tensors are handed out together, up to about this many bytes.
constexpr std::uint64_t kHandful = 1 << 18;

// The host may have told this thread to take subnormal numbers for zero, or to trap.
class PlainArithmetic {
 public:
#if defined(__SSE__)
  PlainArithmetic() : before_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~PlainArithmetic() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  PlainArithmetic() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~PlainArithmetic() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  std::uint64_t before_;
#else
  PlainArithmetic() {}
#endif
};

std::uint64_t bytes_of(const Tensor& tensor) noexcept {
  std::uint64_t bytes = element_size(tensor.element);
  for (std::uint32_t i = 0; i < tensor.rank; ++i)
    bytes *= static_cast<std::uint64_t>(tensor.sizes[i]);
  return bytes;
}

// The second phase goes backwards: the end of a tensor is what the caches still hold.
std::size_t place_of(std::size_t turn, std::size_t pieces, bool first_phase) noexcept {
  return first_phase ? turn : pieces - 1 - turn;
}

// Not inlined: arithmetic must not move out of the scope of PlainArithmetic.
[[gnu::noinline]] Statistics measure_one(const Tensor& tensor, const Kernels& kernels) {
  Job job(tensor, kernels);
  if (job.pieces() == 0) return job.result();
  bool first = true;
  do {
    for (std::size_t i = 0; i < job.pieces(); ++i) job.run(place_of(i, job.pieces(), first));
    first = false;
  } while (job.advance());
  return job.result();
}

// Hands out tensors to threads, the largest first so that all threads end at about the same time.
// The second pass over a tensor is faster on the core that did the first one, so a tensor is cut
// into pieces only where it would keep one core busy while the others have nothing left to do.
class Schedule {
 public:
  Schedule(std::span<const Tensor> tensors, std::span<Statistics> out, const Kernels& kernels,
           std::uint64_t bytes, unsigned threads)
      : tensors_(tensors), out_(out), kernels_(kernels), whole_(bytes / (4ULL * threads)) {
    order_.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) order_.push_back({bytes_of(tensors[i]), i});
    std::sort(order_.begin(), order_.end(), [](const Turn& a, const Turn& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.place < b.place;
    });
  }

  // One thread's part of the work.
  void work() noexcept {
    const PlainArithmetic plain;
    try {
      for (Task task; take(task);) {
        if (task.open == nullptr) {
          for (std::size_t i = task.begin; i < task.end; ++i) {
            const std::size_t place = order_[i].place;
            out_[place] = measure_one(tensors_[place], kernels_);
          }
        } else {
          task.open->job.run(task.begin);
          ran(*task.open);
        }
      }
    } catch (const std::bad_alloc&) {  // the others stop at their next task
      const std::lock_guard lock(mutex_);
      failed_ = true;
      moved_.notify_all();
    }
  }
  bool failed() const noexcept { return failed_; }

 private:
  struct Open {
    Open(const Tensor& tensor, const Kernels& kernels, std::size_t place_in)
        : job(tensor, kernels), place(place_in) {}
    Job job;
    std::size_t place;
    std::size_t given = 0, ran = 0;
    bool first = true;
  };
  struct Task {
    Open* open = nullptr;  // one piece of this tensor; null: the turns from begin to end
    std::size_t begin = 0, end = 0;
  };
  struct Turn {
    std::uint64_t bytes;
    std::size_t place;
  };

  bool take(Task& task) {
    std::unique_lock lock(mutex_);
    while (!failed_) {
      // A phase that has begun comes first: another tensor would push this one out of the caches.
      for (const auto& open : open_) {
        if (open->given == open->job.pieces()) continue;
        task = {open.get(), place_of(open->given++, open->job.pieces(), open->first), 0};
        return true;
      }
      if (next_ == order_.size()) {
        if (open_.empty()) return false;
        moved_.wait(lock);
        continue;
      }
      if (order_[next_].bytes > whole_) {
        const std::size_t place = order_[next_++].place;
        auto open = std::make_unique<Open>(tensors_[place], kernels_, place);
        out_[place] = open->job.result();
        if (open->job.pieces() != 0) open_.push_back(std::move(open));
        continue;
      }
      task = {nullptr, next_, next_};
      for (std::uint64_t bytes = 0; task.end < order_.size() && bytes < kHandful; ++task.end)
        bytes += order_[task.end].bytes;
      next_ = task.end;
      return true;
    }
    return false;
  }

  void ran(Open& open) {
    const std::lock_guard lock(mutex_);
    if (++open.ran != open.job.pieces()) return;
    open.given = open.ran = 0;
    open.first = false;
    if (!open.job.advance()) {
      out_[open.place] = open.job.result();
      std::erase_if(open_, [&](const auto& other) { return other.get() == &open; });
    }
    moved_.notify_all();
  }

  std::span<const Tensor> tensors_;
  std::span<Statistics> out_;
  const Kernels& kernels_;
  std::mutex mutex_;
  std::condition_variable moved_;
  bool failed_ = false;
  std::uint64_t whole_;  // tensors of up to so many bytes are not cut
  std::vector<Turn> order_;
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<Open>> open_;
};

}  // namespace

void measure_with(const Kernels& kernels, std::span<const Tensor> tensors,
                  std::span<Statistics> out, unsigned threads) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += bytes_of(tensor);
  if (threads <= 1 || bytes < kAlone) {
    const PlainArithmetic plain;
    for (std::size_t i = 0; i < tensors.size(); ++i) out[i] = measure_one(tensors[i], kernels);
    return;
  }
  Schedule schedule(tensors, out, kernels, bytes, threads);
  run_together(threads - 1, [&] { schedule.work(); });
  if (schedule.failed()) throw std::bad_alloc();
}

void measure(std::span<const Tensor> tensors, std::span<Statistics> out, unsigned threads) {
  measure_with(*usable_kernels().front(), tensors, out, threads);
}

}  // namespace sonde::snapshot
