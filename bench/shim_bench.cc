// What libdivvy.so adds to the calls that programs make most, in nanoseconds, on the simulated
// driver: launches (plain, Ex, graph), steps of a few launches and a wait, and pairs of allocation
// and free; while the tenant is free, and while its launches are gated.
//
// The program starts itself again under the library. Each measurement is a block of calls into the
// driver directly and a block through the library, by turns, so that noise of the machine meets
// both; `native_ns` and `shim_ns` are medians over the blocks, `added_ns` is that of the
// differences.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "abi/cuda.h"
#include "shim/fake_daemon.h"

namespace {

namespace fs = std::filesystem;
using divvy::shim::FakeDaemon;
using divvy::wire::Mode;

constexpr int kBlock = 128;    // calls between two looks at the clock
constexpr int kBlocks = 2000;  // of either kind
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu empty ns=0
.visible .entry empty() { ret; }
)";
constexpr const char* kMachine =
    "gpus:\n  - model: H200\n    uuid: GPU-01234567-89ab-cdef-0123-456789abcdef\n";
constexpr uint8_t kUuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                               0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

void need(bool good, const char* what) {
  if (good) return;
  fprintf(stderr, "shim_bench: %s failed\n", what);
  exit(1);
}

// The driver's own function. dlsym belongs to the library here, so we read the symbol table.
void* driver_symbol(void* handle, const char* name) {
  const auto* map = static_cast<const link_map*>(handle);
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const uint32_t*>(entry->d_un.d_ptr);
  }
  need(symbols != nullptr && strings != nullptr && hash != nullptr, "reading the driver's symbols");
  // The hash table does not say how many symbols there are; the end of the last chain does.
  const uint32_t buckets = hash[0];
  const uint32_t first = hash[1];
  const uint32_t* bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = bucket + buckets;
  uint32_t last = *std::max_element(bucket, bucket + buckets);
  while (last >= first && (chain[last - first] & 1U) == 0) ++last;
  for (uint32_t i = first; i <= last; ++i) {
    if (strcmp(strings + symbols[i].st_name, name) == 0) {
      return reinterpret_cast<void*>(map->l_addr + symbols[i].st_value);
    }
  }
  return nullptr;
}

// The calls that are measured, as the driver has them or as the program sees them.
struct Calls {
#define CALLS(X)      \
  X(cuLaunchKernel)   \
  X(cuLaunchKernelEx) \
  X(cuGraphLaunch)    \
  X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuStreamSynchronize)
#define DECLARE(name) name##_fn name = nullptr;
  CALLS(DECLARE)
#undef DECLARE
  template <typename Find>
  explicit Calls(const Find& find) {
#define FILL(name)                                 \
  name = reinterpret_cast<name##_fn>(find(#name)); \
  need(name != nullptr, #name);
    CALLS(FILL)
#undef FILL
  }
#undef CALLS
};

// A tenant with one slice, a stream, a kernel and a graph of one kernel, made through the library.
struct Tenant {
  Tenant()
      : folder(getenv("DIVVY_BENCH_FOLDER")),
        daemon(getenv("DIVVY_SOCKET"), {slice()}),
        library(dlopen("libcuda.so.1", RTLD_NOW)),
        native([this](const char* name) { return driver_symbol(library, name); }),
        shim([this](const char* name) { return dlsym(library, name); }) {
#define CALL(name) reinterpret_cast<name##_fn>(dlsym(library, #name))
    need(native.cuLaunchKernel != shim.cuLaunchKernel, "hooking cuLaunchKernel");
    need(CALL(cuInit)(0) == CUDA_SUCCESS, "cuInit");
    need(daemon.registered() == 1, "registering");
    CUcontext context = nullptr;
    need(CALL(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS, "a context");
    CALL(cuCtxSetCurrent)(context);
    CUmodule module = nullptr;
    need(CALL(cuModuleLoadData)(&module, kPtx) == CUDA_SUCCESS, "the module");
    CALL(cuModuleGetFunction)(&kernel, module, "empty");
    CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    shim.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
    CUgraph captured = nullptr;
    CALL(cuStreamEndCapture)(stream, &captured);
    need(CALL(cuGraphInstantiateWithFlags)(&graph, captured, 0) == CUDA_SUCCESS, "the graph");
#undef CALL
  }

  static FakeDaemon::Slice slice() {
    FakeDaemon::Slice made{};
    memcpy(made.uuid, kUuid, sizeof made.uuid);
    made.memory_limit = uint64_t{64} << 30U;
    return made;
  }

  void set_mode(Mode mode) {
    daemon.control().gpu[0].batch_ns = 500'000;
    daemon.control().gpu[0].mode = static_cast<uint32_t>(mode);
    daemon.control().any_gated = mode == Mode::kGated ? 1 : 0;
  }

  std::string folder;
  FakeDaemon daemon;
  void* library;
  Calls native;
  Calls shim;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  CUgraphExec graph = nullptr;
};

Tenant& tenant() {
  static Tenant instance;
  return instance;
}

double now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename F>
double time_block(const Calls& calls, const F& call) {
  const double began = now_ns();
  for (int i = 0; i < kBlock; ++i) call(calls);
  const double per_call = (now_ns() - began) / kBlock;
  calls.cuStreamSynchronize(tenant().stream);
  return per_call;
}

template <typename F>
void compare(benchmark::State& state, Mode mode, const F& call) {
  tenant().set_mode(mode);
  std::vector<double> native;
  std::vector<double> shim;
  std::vector<double> added;
  for (auto _ : state) {
    native.push_back(time_block(tenant().native, call));
    shim.push_back(time_block(tenant().shim, call));
    added.push_back(shim.back() - native.back());
    state.SetIterationTime(shim.back() * 1e-9);
  }
  tenant().set_mode(Mode::kFree);
  state.counters["native_ns"] = median(native);
  state.counters["shim_ns"] = median(shim);
  state.counters["added_ns"] = median(added);
}

void launch(const Calls& calls) {
  calls.cuLaunchKernel(tenant().kernel, 1, 1, 1, 32, 1, 1, 0, tenant().stream, nullptr, nullptr);
}

// A few launches and a wait for them, as a step of inference: what a cap costs with nobody beside.
void step(const Calls& calls) {
  for (int i = 0; i < 4; ++i) launch(calls);
  calls.cuStreamSynchronize(tenant().stream);
}

void launch_ex(const Calls& calls) {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = tenant().stream;
  calls.cuLaunchKernelEx(&config, tenant().kernel, nullptr, nullptr);
}

void launch_graph(const Calls& calls) { calls.cuGraphLaunch(tenant().graph, tenant().stream); }

void alloc_free(const Calls& calls) {
  CUdeviceptr memory = 0;
  calls.cuMemAlloc_v2(&memory, size_t{2} << 20U);
  calls.cuMemFree_v2(memory);
}

void alloc_free_async(const Calls& calls) {
  CUdeviceptr memory = 0;
  calls.cuMemAllocAsync(&memory, size_t{2} << 20U, tenant().stream);
  calls.cuMemFreeAsync(memory, tenant().stream);
}

BENCHMARK_CAPTURE(compare, launch_free, Mode::kFree, launch)->UseManualTime()->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, launch_gated, Mode::kGated, launch)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, step_free, Mode::kFree, step)->UseManualTime()->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, step_gated, Mode::kGated, step)->UseManualTime()->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, launch_ex_free, Mode::kFree, launch_ex)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, launch_ex_gated, Mode::kGated, launch_ex)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, graph_free, Mode::kFree, launch_graph)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, graph_gated, Mode::kGated, launch_graph)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, alloc_and_free, Mode::kFree, alloc_free)
    ->UseManualTime()
    ->Iterations(kBlocks);
BENCHMARK_CAPTURE(compare, alloc_and_free_async, Mode::kFree, alloc_free_async)
    ->UseManualTime()
    ->Iterations(kBlocks);

// Makes a folder for the machine and the socket, and starts this program again as a tenant.
void become_tenant(char** argv) {
  char folder[] = "/tmp/shim-bench-XXXXXX";
  need(mkdtemp(folder) != nullptr, "making a folder");
  const fs::path made = folder;
  std::ofstream(made / "machine.yaml") << kMachine;
  setenv("DIVVY_BENCH_FOLDER", folder, 1);
  setenv("DIVVY_SOCKET", (made / "socket").c_str(), 1);
  setenv("DIVVY_SIM_CONFIG", (made / "machine.yaml").c_str(), 1);
  setenv("DIVVY_SIM_STATE", (made / "state").c_str(), 1);
  setenv("LD_LIBRARY_PATH", SIMGPU_FOLDER, 1);
  setenv("LD_PRELOAD", DIVVY_PRELOAD, 1);
  execv("/proc/self/exe", argv);
  need(false, "starting again");
}

}  // namespace

int main(int argc, char** argv) {
  if (getenv("DIVVY_BENCH_FOLDER") == nullptr) become_tenant(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  fs::remove_all(tenant().folder);
  // The driver's threads would outlive the folder that they work in.
  fflush(nullptr);
  _exit(0);
}
