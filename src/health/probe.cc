#include "health/probe.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdint>
#include <vector>

#include "abi/cuda.h"

namespace divvy::health {
namespace {

constexpr std::size_t kWords = std::size_t{1} << 20U;  // 4 MiB
constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 64;
// What the kernel writes; no word of the pattern.
constexpr std::uint32_t kMark = 0xD1BB1E00;

// The comment is for the simulated driver, which executes no PTX.
constexpr const char* kKernel = R"ptx(
.version 7.0
.target sm_70
.address_size 64

//@simgpu fill32 ns=1000 fill32=param0,param1,param2
)ptx"
#include "abi/fill32_ptx.inc"
    ;

// Every word another, and no two bits next to each other the same for long.
std::uint32_t pattern(std::size_t word) {
  return static_cast<std::uint32_t>(word) * 2654435761U ^ 0x5A5A5A5AU;
}

// The driver's functions, found as they are needed.
class Driver {
 public:
  explicit Driver(void* library) : library_(library) {}

  template <typename... Parameters, typename... Arguments>
  Status call(const char* name, CUresult (*)(Parameters...), Arguments... arguments) const {
    const auto function = reinterpret_cast<CUresult (*)(Parameters...)>(::dlsym(library_, name));
    if (function == nullptr) {
      return err(ErrorCode::kUnsupported, "this driver has no {}", name);
    }
    const CUresult code = function(arguments...);
    if (code == CUDA_SUCCESS) return {};
    return err(ErrorCode::kInternal, "{} answered {}", name, name_of(code));
  }

 private:
  [[nodiscard]] std::string name_of(CUresult code) const {
    const auto ask = reinterpret_cast<cuGetErrorName_fn>(::dlsym(library_, "cuGetErrorName"));
    const char* name = nullptr;
    if (ask != nullptr && ask(code, &name) == CUDA_SUCCESS && name != nullptr) return name;
    return fmt::format("error {}", static_cast<unsigned>(code));
  }

  void* library_;
};

// The type comes from the ABI's declaration, so that a wrong argument does not compile.
#define PROBE_CALL(driver, symbol, ...) \
  DIVVY_RETURN_IF_ERROR((driver).call(#symbol, symbol##_fn {} __VA_OPT__(, ) __VA_ARGS__))

std::string text_of(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

Status find_device(const Driver& cuda, const model::GpuUuid& wanted, CUdevice& found) {
  int count = 0;
  PROBE_CALL(cuda, cuDeviceGetCount, &count);
  for (int i = 0; i < count; ++i) {
    CUuuid uuid{};
    PROBE_CALL(cuda, cuDeviceGet, &found, i);
    PROBE_CALL(cuda, cuDeviceGetUuid_v2, &uuid, found);
    if (text_of(uuid) == wanted.str()) return {};
  }
  return err(ErrorCode::kNotFound, "CUDA does not show the GPU");
}

Status compare(const std::vector<std::uint32_t>& got, std::size_t from, const char* what,
               std::uint32_t (*wanted)(std::size_t)) {
  for (std::size_t i = from; i < got.size(); ++i) {
    if (got[i] == wanted(i)) continue;
    return err(ErrorCode::kDataLoss, "{}: word {} is {:08x} and should be {:08x}", what, i, got[i],
               wanted(i));
  }
  return {};
}

Status check_memory(const Driver& cuda, CUdeviceptr memory) {
  std::vector<std::uint32_t> words(kWords);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = pattern(i);
  PROBE_CALL(cuda, cuMemcpyHtoD_v2, memory, words.data(), kBytes);
  std::fill(words.begin(), words.end(), 0);
  PROBE_CALL(cuda, cuMemcpyDtoH_v2, words.data(), memory, kBytes);
  return compare(words, 0, "memory did not keep what was written", pattern);
}

Status check_kernel(const Driver& cuda, CUdeviceptr memory) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  PROBE_CALL(cuda, cuModuleLoadData, &module, kKernel);
  PROBE_CALL(cuda, cuModuleGetFunction, &kernel, module, "fill32");
  // The first half, so that what it must not touch is seen too.
  std::uint64_t to = memory;
  std::uint64_t count = kWords / 2;
  std::uint32_t value = kMark;
  void* arguments[] = {&to, &count, &value};
  PROBE_CALL(cuda, cuLaunchKernel, kernel, kBlocks, 1U, 1U, kThreads, 1U, 1U, 0U,
             static_cast<CUstream>(nullptr), arguments, static_cast<void**>(nullptr));
  PROBE_CALL(cuda, cuCtxSynchronize);
  std::vector<std::uint32_t> words(kWords);
  PROBE_CALL(cuda, cuMemcpyDtoH_v2, words.data(), memory, kBytes);
  return compare(words, 0, "a kernel did not do its work",
                 [](std::size_t word) { return word < kWords / 2 ? kMark : pattern(word); });
}

}  // namespace

Status run_probe(const ProbePlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* library = ::dlopen(plan.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return err(ErrorCode::kNotFound, "{} cannot be loaded", plan.library);
  }
  const Driver cuda(library);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  PROBE_CALL(cuda, cuInit, 0U);
  DIVVY_RETURN_IF_ERROR(find_device(cuda, plan.gpu, device));
  // What is left behind here goes with the process.
  PROBE_CALL(cuda, cuDevicePrimaryCtxRetain, &context, device);
  PROBE_CALL(cuda, cuCtxSetCurrent, context);
  PROBE_CALL(cuda, cuMemAlloc_v2, &memory, kBytes);
  DIVVY_RETURN_IF_ERROR(check_memory(cuda, memory));
  return check_kernel(cuda, memory);
}

}  // namespace divvy::health
