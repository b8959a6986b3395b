// A program that keeps a GPU busy until it is ended, in one of the ways programs do. It knows
// nothing of Divvy: the tests start it under `divvy run`. It says that it is ready, and begins when
// its input ends. Usage: load KIND
//
//   small    kernels of 10 us, launched ahead
//   long     kernels of 50 ms
//   graph    graphs of 20 kernels, 1.8 ms together
//   mixed    all of them in turn, with fills, on two streams
//   streams  kernels on four streams that wait for each other by events
//   ex, cooperative, thread    medium kernels by that way of launching
//   request  one graph for each byte of its input, and waits for it; ends with its input
//   stuck    begins work that never ends on its own: a stream that waits for a value
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <string>

#include "abi/cuda.h"

namespace {

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu small ns=10000
.visible .entry small(.param .u64 ignored) { ret; }
//@simgpu medium ns=90000
.visible .entry medium(.param .u64 ignored) { ret; }
//@simgpu large ns=50000000
.visible .entry large(.param .u64 ignored) { ret; }
)";

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "load: %s failed with %d\n", what, static_cast<int>(result));
  exit(1);
}
#define MUST(call) must((call), #call)

struct Load {
  CUmodule module;
  CUfunction small;
  CUfunction medium;
  CUfunction large;
  CUstream stream[4];
  CUgraphExec graph[2];  // one for each stream: one that is in both would make them wait in turn
  CUevent turn[4];       // of `streams`
  CUdeviceptr memory;
  std::deque<CUevent> ahead;

  void launch(CUfunction function, CUstream on) {
    uint64_t ignored = 0;
    void* parameters[] = {&ignored};
    MUST(cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, on, parameters, nullptr));
  }

  // Runs ahead of the GPU, but not without end, as a driver's queue would not let it.
  void stay_near(size_t events) {
    CUevent event = nullptr;
    if (ahead.size() < events) {
      MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    } else {
      event = ahead.front();
      ahead.pop_front();
      MUST(cuEventSynchronize(event));
    }
    MUST(cuEventRecord(event, stream[0]));
    ahead.push_back(event);
  }
};

Load prepare() {
  Load load;
  CUcontext context = nullptr;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuModuleLoadData(&load.module, kPtx));
  MUST(cuModuleGetFunction(&load.small, load.module, "small"));
  MUST(cuModuleGetFunction(&load.medium, load.module, "medium"));
  MUST(cuModuleGetFunction(&load.large, load.module, "large"));
  for (CUstream& stream : load.stream) MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cuMemAlloc_v2(&load.memory, 64 << 20));
  CUgraph graph = nullptr;
  MUST(cuStreamBeginCapture_v2(load.stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 20; ++i) load.launch(load.medium, load.stream[0]);
  MUST(cuStreamEndCapture(load.stream[0], &graph));
  for (CUevent& event : load.turn) MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (CUgraphExec& exec : load.graph) MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return load;
}

// By the entry points that limiters tend to forget.
void launch_by(Load& load, const std::string& way) {
  uint64_t ignored = 0;
  void* parameters[] = {&ignored};
  if (way == "cooperative") {
    MUST(
        cuLaunchCooperativeKernel(load.medium, 64, 1, 1, 256, 1, 1, 0, load.stream[0], parameters));
  } else if (way == "thread") {
    MUST(cuLaunchKernel_ptsz(load.medium, 4096, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
    // The end of this thread's stream is what stay_near() looks at.
    CUevent event = nullptr;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord_ptsz(event, nullptr));
    MUST(cuStreamWaitEvent(load.stream[0], event, 0));
    MUST(cuEventDestroy_v2(event));
  } else {
    CUlaunchConfig config{};
    config.gridDimX = 4096;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = load.stream[0];
    MUST(cuLaunchKernelEx(&config, load.medium, parameters, nullptr));
  }
}

void step(Load& load, const std::string& kind, uint64_t round) {
  if (kind == "small") {
    for (int i = 0; i < 64; ++i) load.launch(load.small, load.stream[0]);
    return load.stay_near(64);
  }
  if (kind == "long") {
    load.launch(load.large, load.stream[0]);
    return load.stay_near(2);
  }
  if (kind == "graph") {
    MUST(cuGraphLaunch(load.graph[0], load.stream[0]));
    return load.stay_near(16);
  }
  if (kind == "mixed") {
    for (int i = 0; i < 32; ++i) load.launch(load.small, load.stream[i % 2]);
    if (round % 8 == 0) load.launch(load.large, load.stream[0]);
    MUST(cuGraphLaunch(load.graph[round % 2], load.stream[round % 2]));
    MUST(cuMemsetD32Async(load.memory, 7, 1 << 20, load.stream[1]));
    return load.stay_near(4);
  }
  if (kind == "streams") {
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < 4; ++k) load.launch(load.small, load.stream[i]);
      load.launch(load.medium, load.stream[i]);
      MUST(cuEventRecord(load.turn[i], load.stream[i]));
      MUST(cuStreamWaitEvent(load.stream[(i + 1) % 4], load.turn[i], 0));
    }
    return load.stay_near(64);
  }
  if (kind == "ex" || kind == "cooperative" || kind == "thread") {
    for (int i = 0; i < 8; ++i) launch_by(load, kind);
    return load.stay_near(64);
  }
  if (kind == "request") {
    char byte = 0;
    if (read(0, &byte, 1) != 1) exit(0);
    MUST(cuGraphLaunch(load.graph[0], load.stream[0]));
    MUST(cuStreamSynchronize(load.stream[0]));
    return;
  }
  if (kind == "stuck") {
    load.launch(load.small, load.stream[0]);
    MUST(cuStreamWaitValue32_v2(load.stream[0], load.memory, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < 1000; ++i) load.launch(load.small, load.stream[0]);
    MUST(cuStreamSynchronize(load.stream[0]));
    return;
  }
  fprintf(stderr, "load: there is no kind '%s'\n", kind.c_str());
  exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Load load = prepare();
  printf("ready\n");
  fflush(stdout);
  const bool serves = argv[1] == std::string("request");
  while (!serves && getchar() != EOF) {
  }
  for (uint64_t round = 0;; ++round) step(load, argv[1], round);
}
