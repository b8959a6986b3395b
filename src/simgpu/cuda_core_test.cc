// The simulated driver through its C interface, in real time. What must be the same on a real
// driver is checked by tests/driver_conformance; here are the things only the simulation promises.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "abi/cuda.h"
#include "simgpu/driver.h"
#include "simgpu/fault.h"
#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {
namespace {

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu spin ns=param0
//@simgpu fill ns=1000 fill32=param0,param1,param2
.visible .entry spin(.param .u64 ns) { ret; }
.visible .entry fill(.param .u64 p, .param .u64 n, .param .u32 v) { ret; }
.visible .entry plain() { ret; }
)";

class CudaCore : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    path() = scratch("cuda-core");
    setenv("DIVVY_SIM_STATE", path().c_str(), 1);
    setenv("DIVVY_SIM_GPUS", "2xH200", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  static void TearDownTestSuite() { SharedState::remove(path()); }
  static std::string& path() {
    static std::string path;
    return path;
  }

  CudaCore() {
    EXPECT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
  }
  ~CudaCore() override { cuCtxDestroy_v2(context_); }

  CUfunction function(const char* name) {
    CUfunction f = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&f, module_, name), CUDA_SUCCESS);
    return f;
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

TEST_F(CudaCore, AnnotatedEffectsHappenInStreamOrder) {
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
  uint64_t count = 1024;
  for (uint32_t value : {1U, 2U, 3U}) {
    void* params[] = {&memory, &count, &value};
    ASSERT_EQ(cuLaunchKernel(function("fill"), 4, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr),
              CUDA_SUCCESS);
  }
  std::vector<uint32_t> read(1024);
  ASSERT_EQ(cuMemcpyDtoH_v2(read.data(), memory, 4096), CUDA_SUCCESS);
  EXPECT_EQ(read, std::vector<uint32_t>(1024, 3));
}

TEST_F(CudaCore, CopiesToAndFromTheHostAreTrafficOnPcie) {
  const Gpu& gpu = Driver::get().state().gpu(0);
  const uint64_t sent = gpu.pcie_sent_bytes.load();
  const uint64_t received = gpu.pcie_received_bytes.load();
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 8192), CUDA_SUCCESS);
  std::vector<uint8_t> bytes(4096);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory, bytes.data(), 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoD_v2(memory + 4096, memory, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH_v2(bytes.data(), memory, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(gpu.pcie_received_bytes.load() - received, 4096U);
  EXPECT_EQ(gpu.pcie_sent_bytes.load() - sent, 1000U);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
}

TEST_F(CudaCore, AQueueFullOfKernelsMakesTheLaunchWaitNotFail) {
  uint64_t ns = 1000;
  void* params[] = {&ns};
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(cuLaunchKernel(function("spin"), 4096, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr),
              CUDA_SUCCESS);
  }
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

// The stream waits until all is queued: what the CPU does in between is not in the events.
TEST_F(CudaCore, EventsInAStreamThatIsHeldMeasureTheKernelAlone) {
  void* word = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&word, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
  auto* released = static_cast<std::atomic<uint32_t>*>(word);
  CUstream stream = nullptr;
  CUevent begin = nullptr;
  CUevent end = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&begin, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  uint64_t ns = 20'000;
  void* parameters[] = {&ns};
  for (uint32_t ticket = 1; ticket <= 100; ++ticket) {
    ASSERT_EQ(cuStreamWaitValue32_v2(stream, reinterpret_cast<CUdeviceptr>(word), ticket,
                                     CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    std::this_thread::yield();
    ASSERT_EQ(cuLaunchKernel(function("spin"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
              CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    released->store(ticket);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    float ms = 0;
    ASSERT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_SUCCESS);
    EXPECT_FLOAT_EQ(ms, 0.02F);
  }
}

TEST_F(CudaCore, HostFunctionsMayTakeLocksThatTheProgramHoldsWhileItAsks) {
  std::mutex mutex;
  std::atomic<bool> ran{false};
  struct Shared {
    std::mutex* mutex;
    std::atomic<bool>* ran;
  } shared{&mutex, &ran};
  {
    std::lock_guard<std::mutex> held(mutex);
    ASSERT_EQ(cuLaunchHostFunc(
                  nullptr,
                  [](void* data) {
                    auto* s = static_cast<Shared*>(data);
                    std::lock_guard<std::mutex> lock(*s->mutex);
                    s->ran->store(true);
                  },
                  &shared),
              CUDA_SUCCESS);
    // Asking while the function waits for our lock must not run it in this thread.
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  }
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_TRUE(ran.load());
}

TEST_F(CudaCore, ManyThreadsLaunchIntoTheirOwnStreams) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      if (cuCtxSetCurrent(context_) != CUDA_SUCCESS) ++failures;
      for (int i = 0; i < 500; ++i) {
        if (cuLaunchKernel_ptsz(function("plain"), 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr,
                                nullptr) != CUDA_SUCCESS) {
          ++failures;
        }
      }
      if (cuStreamSynchronize_ptsz(nullptr) != CUDA_SUCCESS) ++failures;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(CudaCore, AStreamDestroyedWithWorkQueuedFinishesIt) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(memory, 42, 1, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  uint32_t value = 0;
  ASSERT_EQ(cuMemcpyDtoH_v2(&value, memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 42U);
}

TEST_F(CudaCore, ALostGpuFailsEveryCallOfItsContextsForGood) {
  SharedState& state = Driver::get().state();
  CUcontext doomed = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&doomed, 0, 1), CUDA_SUCCESS);
  state.gpu(1).faults.lost = 1;
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
  state.gpu(1).faults.lost = 0;
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN) << "the context does not come back";
  EXPECT_EQ(cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  CUcontext fresh = nullptr;
  EXPECT_EQ(cuCtxCreate_v2(&fresh, 0, 1), CUDA_SUCCESS) << "but the GPU does";
  EXPECT_EQ(cuCtxDestroy_v2(fresh), CUDA_SUCCESS);
}

TEST_F(CudaCore, AnUncorrectableEccErrorIsStickyForContextsThatLivedThroughIt) {
  SharedState& state = Driver::get().state();
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 1), CUDA_SUCCESS);
  state.gpu(1).faults.ecc_epoch.fetch_add(1);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

TEST_F(CudaCore, EveryEntryPointOfTheTableResolvesToItself) {
#define DIVVY_CU(symbol, base, since, kind, args)                                            \
  {                                                                                          \
    void* found = nullptr;                                                                   \
    const cuuint64_t flags = #kind[1] == 'P' ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM \
                                             : CU_GET_PROC_ADDRESS_LEGACY_STREAM;            \
    EXPECT_EQ(cuGetProcAddress(base, &found, since, flags), CUDA_SUCCESS) << #symbol;        \
    EXPECT_EQ(found, reinterpret_cast<void*>(&::symbol)) << #symbol;                         \
  }
#include "abi/cuda_functions.inc"
}

TEST_F(CudaCore, MemoryOfADestroyedContextIsGivenBack) {
  SharedState& state = Driver::get().state();
  const uint64_t before = state.used_bytes(0);
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64 << 20), CUDA_SUCCESS);
  EXPECT_GE(state.used_bytes(0), before + (64 << 20));
  ASSERT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  EXPECT_EQ(state.used_bytes(0), before);
}

}  // namespace
}  // namespace divvy::simgpu
