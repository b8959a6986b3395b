// A process that is killed in the middle of launches and allocations gives everything back, and the
// one beside it goes on. Two hundred times, each at another instant.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>

#include "abi/cuda.h"
#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {
namespace {

constexpr int kRounds = 200;
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu work ns=20000
.visible .entry work(.param .u64 ignored) { ret; }
)";

// What the processes tell each other.
struct Board {
  std::atomic<uint64_t> sibling_steps;
  std::atomic<uint64_t> victim_steps;
};

// Far beyond anything a healthy run needs, so that a stall is a failure and not a hang.
constexpr time_t kWatchdogSeconds = 30;

bool await(const std::atomic<uint64_t>& counter, uint64_t at_least) {
  timespec start{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (counter.load() < at_least) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec > kWatchdogSeconds) return false;
    sched_yield();
  }
  return true;
}

CUfunction begin() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS || cuModuleLoadData(&module, kPtx) != CUDA_SUCCESS ||
      cuModuleGetFunction(&function, module, "work") != CUDA_SUCCESS) {
    _exit(3);
  }
  return function;
}

void launch(CUfunction function, CUstream stream) {
  uint64_t ignored = 0;
  void* params[] = {&ignored};
  if (cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, stream, params, nullptr) != CUDA_SUCCESS) {
    _exit(4);
  }
}

[[noreturn]] void sibling(Board& board) {
  const CUfunction function = begin();
  CUdeviceptr memory = 0;
  if (cuMemAlloc_v2(&memory, 256 << 20) != CUDA_SUCCESS) _exit(5);
  for (;;) {
    launch(function, nullptr);
    if (cuStreamSynchronize(nullptr) != CUDA_SUCCESS) _exit(6);
    board.sibling_steps.fetch_add(1);
  }
}

// Does a little of everything, as fast as it can, until it is killed.
[[noreturn]] void victim(Board& board, unsigned seed) {
  std::minstd_rand random(seed);
  const CUfunction function = begin();
  CUstream stream = nullptr;
  void* page = nullptr;
  if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      cuMemHostAlloc(&page, 4096, 0) != CUDA_SUCCESS) {
    _exit(7);
  }
  const auto word = reinterpret_cast<CUdeviceptr>(page);
  for (;;) {
    board.victim_steps.fetch_add(1);
    CUdeviceptr memory = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    switch (random() % 6) {
      case 0:
        cuMemAlloc_v2(&memory, (random() % 64 + 1) << 20);
        if (random() % 2 == 0) cuMemFree_v2(memory);
        break;
      case 1:
        cuMemAllocAsync(&memory, (random() % 32 + 1) << 20, stream);
        cuMemFreeAsync(memory, stream);
        break;
      case 2:
        cuMemCreate(&handle, 2 << 20, &prop, 0);
        break;
      case 3:
        for (unsigned i = random() % 50; i > 0; --i) launch(function, stream);
        break;
      case 4:
        cuStreamWriteValue32_v2(stream, word, 1, 0);
        cuStreamWaitValue32_v2(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ);
        break;
      default:
        cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        launch(function, stream);
        cuStreamEndCapture(stream, &graph);
        cuGraphInstantiateWithFlags(&exec, graph, 0);
        cuGraphLaunch(exec, stream);
        cuStreamSynchronize(stream);
        cuGraphExecDestroy(exec);
        cuGraphDestroy(graph);
    }
  }
}

template <typename Body>
pid_t start(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) body();
  return pid;
}

TEST(Kill, TwoHundredKilledProcessesLeaveNothingAndStallNobody) {
  const std::string path = simgpu::scratch("kill");
  setenv("DIVVY_SIM_STATE", path.c_str(), 1);
  setenv("DIVVY_SIM_GPUS", "1xH200", 1);
  auto* board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::string error;
  const std::unique_ptr<SharedState> state(SharedState::open(&error));
  ASSERT_NE(state, nullptr) << error;

  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand random(seed);

  const pid_t beside = start([&] { sibling(*board); });
  ASSERT_TRUE(await(board->sibling_steps, 1));
  state->reap();
  const uint64_t held_by_sibling = state->used_bytes(0);
  ASSERT_GT(held_by_sibling, 256U << 20);

  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    board->victim_steps = 0;
    const unsigned victim_seed = random();
    const pid_t pid = start([&] { victim(*board, victim_seed); });
    ASSERT_TRUE(await(board->victim_steps, random() % 40 + 1)) << "the victim did not get going";
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the victim ended by itself with " << WEXITSTATUS(status);

    const uint64_t steps = board->sibling_steps.load();
    ASSERT_TRUE(await(board->sibling_steps, steps + 20)) << "the sibling stalled";
    state->reap();
    ASSERT_EQ(state->used_bytes(0), held_by_sibling) << "memory is still held";
  }
  int status = 0;
  EXPECT_EQ(waitpid(beside, &status, WNOHANG), 0) << "the sibling died";
  kill(beside, SIGKILL);
  waitpid(beside, &status, 0);
  state->reap();
  EXPECT_EQ(state->used_bytes(0), 0U);
  SharedState::remove(path);
  munmap(board, sizeof(Board));
}

}  // namespace
}  // namespace divvy::simgpu
