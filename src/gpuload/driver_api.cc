#include "gpuload/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "gpuload/own_exports.h"

namespace divvy::gpuload {
namespace {

constexpr const char* kNames[] = {"libcuda.so.1", "libcuda.so"};

void* open_driver() {
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  throw NoDriver(
      "there is no CUDA driver on this machine (libcuda.so.1 cannot be loaded); install the NVIDIA "
      "driver, or try simulated GPUs: simgpu run --gpus 4xH200 -- gpuload info");
}

enum StreamKind { kNoStream, kLegacy, kPerThread };

cuuint64_t flags_for(StreamKind kind) {
  switch (kind) {
    case kLegacy:
      return CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    case kPerThread:
      return CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    case kNoStream:
      break;
  }
  return CU_GET_PROC_ADDRESS_DEFAULT;
}

class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {
    ask_ = reinterpret_cast<cuGetProcAddress_v2_fn>(dlsym(library, "cuGetProcAddress_v2"));
  }

  // An old driver has no cuGetProcAddress_v2, or does not know a newer base; its exported symbol,
  // if there is one, is then the next best thing.
  [[nodiscard]] void* find(const char* symbol, const char* base, int since, StreamKind kind) const {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (ask_ != nullptr && ask_(base, &found, since, flags_for(kind), &status) == CUDA_SUCCESS &&
        found != nullptr) {
      return found;
    }
    return dlsym(library_, symbol);
  }

 private:
  void* library_;
  cuGetProcAddress_v2_fn ask_ = nullptr;
};

}  // namespace

CudaFailure::CudaFailure(std::string call, CUresult code, std::string name)
    : std::runtime_error(
          fmt::format("{} failed: {} ({})", call, name, static_cast<unsigned>(code))),
      code_(code) {}

DriverApi DriverApi::load() {
  const Resolver resolver(open_driver());
  DriverApi api;
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) \
  api.symbol = reinterpret_cast<symbol##_fn>(resolver.find(#symbol, base, since, stream_kind));
#include "abi/cuda_functions.inc"
  if (api.cuInit == nullptr || api.cuDriverGetVersion == nullptr) {
    throw NoDriver("libcuda.so.1 was loaded but has no cuInit; it is not a CUDA driver");
  }
  api.cuDriverGetVersion(&api.version);
  return api;
}

DriverApi DriverApi::load_past_hooks() {
  const OwnExports exports(open_driver());
  DriverApi api;
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) \
  api.symbol = reinterpret_cast<symbol##_fn>(exports.find(#symbol));
#include "abi/cuda_functions.inc"
  if (api.cuDriverGetVersion == nullptr) raise_missing("cuDriverGetVersion");
  api.cuDriverGetVersion(&api.version);
  return api;
}

std::string DriverApi::error_name(CUresult code) const {
  const char* name = nullptr;
  if (cuGetErrorName != nullptr && cuGetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr) {
    return name;
  }
  return fmt::format("error {}", static_cast<unsigned>(code));
}

void raise_missing(const char* symbol) {
  throw NoDriver(fmt::format("this CUDA driver has no {}; install a newer driver", symbol));
}

void raise_failure(const DriverApi& api, const char* symbol, CUresult code) {
  throw CudaFailure(symbol, code, api.error_name(code));
}

}  // namespace divvy::gpuload
