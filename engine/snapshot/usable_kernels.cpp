// kernels-inl.h is read once for each instruction set. Highway's dispatch is in its shared library,
// which we do not link, so the end of this file chooses.
#include "engine/snapshot/usable_kernels.h"

#include <array>
#include <cstddef>
#include <span>

#include "engine/snapshot/kernels.h"
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#define HWY_DISABLED_TARGETS HWY_SSSE3  // the plain one serves such processors
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/snapshot/kernels-inl.h"
#include <hwy/foreach_target.h>

#include "engine/snapshot/kernels-inl.h"

namespace hwy {
#if HWY_IS_DEBUG_BUILD
// Failed assertions of the headers call it. Highway has it in its library, which we do not link.
void Abort(const char*, int, const char*, ...) { __builtin_trap(); }
#endif
}  // namespace hwy

namespace sonde::snapshot {

namespace {

struct Usable {
  std::array<const Kernels*, 4> list{};
  std::size_t count = 0;

  void add(const Kernels& kernels) { list[count++] = &kernels; }

  Usable() {
#if HWY_ARCH_X86
    __builtin_cpu_init();
    [[maybe_unused]] const bool sse4 = __builtin_cpu_supports("sse4.2") &&
                                       __builtin_cpu_supports("aes") &&
                                       __builtin_cpu_supports("pclmul");
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // not every compiler can name this one
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    [[maybe_unused]] const bool avx2 =
        sse4 && f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    [[maybe_unused]] const bool avx3 =
        avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#if HWY_TARGETS & HWY_AVX3
    if (avx3) add(N_AVX3::kKernels);
#endif
#if HWY_TARGETS & HWY_AVX2
    if (avx2) add(N_AVX2::kKernels);
#endif
#if HWY_TARGETS & HWY_SSE4
    if (sse4) add(N_SSE4::kKernels);
#endif
#endif
    // What the compiler was told to assume of every processor.
    const Kernels& always = HWY_STATIC_DISPATCH(kKernels);
    if (count == 0 || list[count - 1] != &always) add(always);
  }
};

}  // namespace

std::span<const Kernels* const> usable_kernels() noexcept {
  static const Usable kUsable;
  return {kUsable.list.data(), kUsable.count};
}

}  // namespace sonde::snapshot
