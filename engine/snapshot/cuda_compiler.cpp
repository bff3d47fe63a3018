#include "engine/snapshot/cuda_compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/snapshot/kernels_source.h"  // made of cuda_kernels.cu and what it includes

namespace sonde::snapshot {

namespace {

using Program = struct NvrtcProgram*;

struct Nvrtc {
  int (*create)(Program*, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int count, const char* const* options) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*arch_count)(int*) = nullptr;
  int (*archs)(int*) = nullptr;

  bool load(void* library) {
    bool complete = true;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      complete = complete && function != nullptr;
    };
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
    find(ptx_size, "nvrtcGetPTXSize");
    find(ptx, "nvrtcGetPTX");
    find(arch_count, "nvrtcGetNumSupportedArchs");
    find(archs, "nvrtcGetSupportedArchs");
    return complete;
  }
};

std::mutex g_lock;
std::vector<std::string> g_paths;

base::Status open_nvrtc(Nvrtc& nvrtc) {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(g_lock);
    names = g_paths;
  }
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"})
    names.emplace_back(name);
  for (const std::string& name : names) {
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr && nvrtc.load(library)) return {};
  }
  return base::Status(EINVAL, "NVRTC is not installed");
}

std::string text_of(Program program, int (*size)(Program, std::size_t*),
                    int (*get)(Program, char*)) {
  std::size_t bytes = 0;
  std::string text;
  if (size(program, &bytes) != 0) return text;
  text.resize(bytes);
  if (get(program, text.data()) != 0) text.clear();
  return text;
}

}  // namespace

void set_nvrtc_paths(std::vector<std::string> paths) {
  const std::lock_guard lock(g_lock);
  g_paths = std::move(paths);
}

base::Status compile_kernels(int compute_major, int compute_minor, std::string& image) {
  Nvrtc nvrtc;
  if (base::Status status = open_nvrtc(nvrtc); !status.ok()) return status;
  int count = 0;
  nvrtc.arch_count(&count);
  std::vector<int> archs(static_cast<std::size_t>(std::max(count, 1)), 0);
  nvrtc.archs(archs.data());
  // A device that is newer than the compiler runs the newest code it knows, which the driver then
  // translates.
  const int wanted = compute_major * 10 + compute_minor;
  const auto later = std::upper_bound(archs.begin(), archs.end(), wanted);
  if (later == archs.begin()) return base::Status(EINVAL, "NVRTC knows no code that this GPU runs");
  const int arch = *(later - 1);
  const std::string target =
      "--gpu-architecture=" + std::string(arch == wanted ? "sm_" : "compute_") +
      std::to_string(arch);
  const std::array<const char*, 2> options{target.c_str(), "--std=c++17"};
  Program program = nullptr;
  if (nvrtc.create(&program, kKernels, "cuda_kernels.cu", static_cast<int>(std::size(kHeaderTexts)),
                   kHeaderTexts, kHeaderNames) != 0)
    return base::Status(EINVAL, "NVRTC does not start");
  base::Status status;
  if (nvrtc.compile(program, static_cast<int>(options.size()), options.data()) == 0) {
    image = arch == wanted ? text_of(program, nvrtc.cubin_size, nvrtc.cubin)
                           : text_of(program, nvrtc.ptx_size, nvrtc.ptx);
    if (image.empty()) status = base::Status(EINVAL, "NVRTC made no code");
  } else {
    status = base::Status(EINVAL, "NVRTC refuses the kernels: " +
                                      text_of(program, nvrtc.log_size, nvrtc.log).substr(0, 500));
  }
  nvrtc.destroy(&program);
  return status;
}

}  // namespace sonde::snapshot
