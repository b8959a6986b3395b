// What the tests of graphs and captures share: a context of its own on a private state, a few
// kernels with visible effects, and words of device memory to see them in.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "abi/cuda.h"
#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {

class GraphFixture : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    path() = scratch("cuda-graph");
    setenv("DIVVY_SIM_STATE", path().c_str(), 1);
    setenv("DIVVY_SIM_GPUS", "2xH200", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  static void TearDownTestSuite() { SharedState::remove(path()); }

  void SetUp() override {
    constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu store ns=1000 fill32=param0,1,param1
//@simgpu carry ns=1000 copy=param0,param1,4
//@simgpu spin ns=param0
.visible .entry store(.param .u64 to, .param .u32 value) { ret; }
.visible .entry carry(.param .u64 to, .param .u64 from) { ret; }
.visible .entry spin(.param .u64 ns) { ret; }
.visible .entry empty() { ret; }
)";
    ASSERT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&store_, module_, "store"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&carry_, module_, "carry"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&spin_, module_, "spin"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&empty_, module_, "empty"), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&words_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32_v2(words_, 0, 1024), CUDA_SUCCESS);
    stream_ = new_stream(CU_STREAM_NON_BLOCKING);
    other_ = new_stream(CU_STREAM_NON_BLOCKING);
    ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuGraphDestroy(graph_);
    EXPECT_EQ(cuCtxDestroy_v2(context_), CUDA_SUCCESS);
  }

  static CUstream new_stream(unsigned flags) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  static CUevent new_event() {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return event;
  }

  CUdeviceptr word(int index) const { return words_ + static_cast<unsigned>(index) * 4; }
  uint32_t read(int index) {
    uint32_t value = 0;
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH_v2(&value, word(index), 4), CUDA_SUCCESS);
    return value;
  }

  static CUDA_KERNEL_NODE_PARAMS shape(CUfunction function, void** params) {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = function;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = params;
    return kernel;
  }

  // Nodes that write `value` into a word, or copy one word to another.
  CUgraphNode add_store(CUgraph graph, int to, uint32_t value,
                        const std::vector<CUgraphNode>& after = {}) {
    CUdeviceptr address = word(to);
    void* params[] = {&address, &value};
    return add_kernel(graph, shape(store_, params), after);
  }
  CUgraphNode add_carry(CUgraph graph, int to, int from,
                        const std::vector<CUgraphNode>& after = {}) {
    CUdeviceptr target = word(to);
    CUdeviceptr source = word(from);
    void* params[] = {&target, &source};
    return add_kernel(graph, shape(carry_, params), after);
  }
  static CUgraphNode add_kernel(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS& params,
                                const std::vector<CUgraphNode>& after) {
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(), &params),
              CUDA_SUCCESS);
    return node;
  }
  static CUgraphNode add_empty(CUgraph graph, const std::vector<CUgraphNode>& after = {}) {
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, after.data(), after.size()), CUDA_SUCCESS);
    return node;
  }

  // The same in a stream.
  CUresult launch_store(CUstream stream, int to, uint32_t value) {
    CUdeviceptr address = word(to);
    void* params[] = {&address, &value};
    return cuLaunchKernel(store_, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  CUresult launch_empty(CUstream stream) {
    return cuLaunchKernel(empty_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }

  static CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, flags), CUDA_SUCCESS);
    return exec;
  }
  static size_t node_count(CUgraph graph) {
    size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    return count;
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction store_ = nullptr;
  CUfunction carry_ = nullptr;
  CUfunction spin_ = nullptr;
  CUfunction empty_ = nullptr;
  CUdeviceptr words_ = 0;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUgraph graph_ = nullptr;

 private:
  static std::string& path() {
    static std::string path;
    return path;
  }
};

}  // namespace divvy::simgpu
