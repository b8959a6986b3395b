// What the simulated driver costs per call, through the library as a program loads it.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "abi/cuda.h"

namespace {

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu empty ns=0
//@simgpu args ns=0
.visible .entry empty() { ret; }
.visible .entry args(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }
)";

void* library() {
  static void* handle = dlopen(SIMGPU_CUDA_LIBRARY, RTLD_NOW);
  return handle;
}

#define CALL(name) reinterpret_cast<name##_fn>(dlsym(library(), #name))

struct Setup {
  Setup() {
    CALL(cuInit)(0);
    CUcontext context = nullptr;
    CALL(cuDevicePrimaryCtxRetain)(&context, 0);
    CALL(cuCtxSetCurrent)(context);
    CUmodule module = nullptr;
    CALL(cuModuleLoadData)(&module, kPtx);
    CALL(cuModuleGetFunction)(&empty, module, "empty");
    CALL(cuModuleGetFunction)(&args, module, "args");
    CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemHostAlloc)(&page, 4096, 0);
  }
  CUfunction empty = nullptr;
  CUfunction args = nullptr;
  CUstream stream = nullptr;
  void* page = nullptr;
};

Setup& setup() {
  static Setup s;
  return s;
}

void launch_empty(benchmark::State& state) {
  const auto launch = CALL(cuLaunchKernel);
  for (auto _ : state) {
    launch(setup().empty, 1, 1, 1, 32, 1, 1, 0, setup().stream, nullptr, nullptr);
  }
  CALL(cuStreamSynchronize)(setup().stream);
}
BENCHMARK(launch_empty);

void launch_with_arguments(benchmark::State& state) {
  const auto launch = CALL(cuLaunchKernel);
  uint64_t a = 1;
  uint64_t b = 2;
  uint32_t c = 3;
  void* params[] = {&a, &b, &c};
  for (auto _ : state) {
    launch(setup().args, 1, 1, 1, 32, 1, 1, 0, setup().stream, params, nullptr);
  }
  CALL(cuStreamSynchronize)(setup().stream);
}
BENCHMARK(launch_with_arguments);

void alloc_and_free(benchmark::State& state) {
  const auto alloc = CALL(cuMemAlloc_v2);
  const auto free = CALL(cuMemFree_v2);
  for (auto _ : state) {
    CUdeviceptr memory = 0;
    alloc(&memory, static_cast<size_t>(state.range(0)));
    free(memory);
  }
}
BENCHMARK(alloc_and_free)->Arg(4096)->Arg(64 << 20);

void write_value(benchmark::State& state) {
  const auto write = CALL(cuStreamWriteValue32_v2);
  for (auto _ : state) {
    write(setup().stream, reinterpret_cast<CUdeviceptr>(setup().page), 1, 0);
  }
  CALL(cuStreamSynchronize)(setup().stream);
}
BENCHMARK(write_value);

void launch_and_synchronize(benchmark::State& state) {
  const auto launch = CALL(cuLaunchKernel);
  const auto wait = CALL(cuStreamSynchronize);
  for (auto _ : state) {
    launch(setup().empty, 1, 1, 1, 32, 1, 1, 0, setup().stream, nullptr, nullptr);
    wait(setup().stream);
  }
}
BENCHMARK(launch_and_synchronize);

}  // namespace

int main(int argc, char** argv) {
  const std::string state = "/tmp/simgpu-bench-" + std::to_string(getpid());
  setenv("DIVVY_SIM_STATE", state.c_str(), 1);
  setenv("DIVVY_SIM_GPUS", "1xH200", 1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  unlink(state.c_str());
  unlink((state + ".alive").c_str());
  return 0;
}
