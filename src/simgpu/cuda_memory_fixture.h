// A private pair of simulated H200s with a context current, for the memory tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "abi/cuda.h"
#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {

constexpr size_t kMiB = size_t{1} << 20;

class CudaMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("DIVVY_SIM_STATE", state_file().c_str(), 1);
    setenv("DIVVY_SIM_GPUS", "2xH200", 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  }
  static void TearDownTestSuite() { SharedState::remove(state_file()); }

  CudaMemory() {
    EXPECT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    before_ = free_bytes();
  }
  // A test that frees all it took leaves the GPU as it found it.
  ~CudaMemory() override {
    if (context_ != nullptr) cuCtxDestroy_v2(context_);
  }

  static size_t free_bytes() {
    size_t free = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, nullptr), CUDA_SUCCESS);
    return free;
  }
  // MiB taken since the test began.
  size_t taken() const { return (before_ - free_bytes()) / kMiB; }

  static CUmemAllocationProp device_prop(CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_NONE) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    prop.requestedHandleTypes = type;
    return prop;
  }

  CUcontext context_ = nullptr;
  size_t before_ = 0;

 private:
  static const std::string& state_file() {
    static const std::string path = scratch("cuda-memory");
    return path;
  }
};

}  // namespace divvy::simgpu
