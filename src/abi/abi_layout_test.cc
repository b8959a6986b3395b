// Sizes, offsets and numbers that programs built against the real headers rely on, as literals:
// they hold without a toolkit, and nobody can change a declaration and its test in one slip of the
// hand.

#include <gtest/gtest.h>

#include <type_traits>

#include "abi/cuda.h"
#include "abi/nvml.h"

namespace {

TEST(CudaLayout, HandlesThatTravelBetweenProcesses) {
  EXPECT_EQ(sizeof(CUipcMemHandle), 64U);
  EXPECT_EQ(sizeof(CUipcEventHandle), 64U);
  EXPECT_EQ(sizeof(CUmemFabricHandle), 64U);
  EXPECT_EQ(sizeof(CUmemPoolPtrExportData), 64U);
  EXPECT_EQ(sizeof(CUuuid), 16U);
  EXPECT_EQ(sizeof(CUdeviceptr), 8U);
}

TEST(CudaLayout, StreamMemoryOperations) {
  EXPECT_EQ(sizeof(CUstreamBatchMemOpParams), 48U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, waitValue.operation), 0U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, waitValue.address), 8U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, waitValue.value), 16U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, waitValue.value64), 16U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, waitValue.flags), 24U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, writeValue.value), 16U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, writeValue.alias), 32U);
  EXPECT_EQ(offsetof(CUstreamBatchMemOpParams, memoryBarrier.flags), 4U);
  EXPECT_EQ(CU_STREAM_MEM_OP_WAIT_VALUE_32, 1U);
  EXPECT_EQ(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2U);
  EXPECT_EQ(CU_STREAM_MEM_OP_WAIT_VALUE_64, 4U);
  EXPECT_EQ(CU_STREAM_MEM_OP_WRITE_VALUE_64, 5U);
  EXPECT_EQ(CU_STREAM_WAIT_VALUE_AND, 2U);
}

TEST(CudaLayout, Launches) {
  EXPECT_EQ(sizeof(CUlaunchAttributeValue), 64U);
  EXPECT_EQ(sizeof(CUlaunchAttribute), 72U);
  EXPECT_EQ(offsetof(CUlaunchAttribute, value), 8U);
  EXPECT_EQ(sizeof(CUlaunchConfig), 56U);
  EXPECT_EQ(offsetof(CUlaunchConfig, hStream), 32U);
  EXPECT_EQ(offsetof(CUlaunchConfig, attrs), 40U);
  EXPECT_EQ(offsetof(CUlaunchConfig, numAttrs), 48U);
}

TEST(CudaLayout, Memory) {
  EXPECT_EQ(sizeof(CUmemLocation), 8U);
  EXPECT_EQ(sizeof(CUmemAccessDesc), 12U);
  EXPECT_EQ(sizeof(CUmemAllocationProp), 32U);
  EXPECT_EQ(offsetof(CUmemAllocationProp, location), 8U);
  EXPECT_EQ(offsetof(CUmemAllocationProp, allocFlags), 24U);
  EXPECT_EQ(sizeof(CUmemPoolProps), 88U);
  EXPECT_EQ(offsetof(CUmemPoolProps, location), 8U);
  EXPECT_EQ(offsetof(CUmemPoolProps, maxSize), 24U);
  EXPECT_EQ(sizeof(CUDA_MEMCPY2D), 128U);
  EXPECT_EQ(sizeof(CUDA_MEMCPY3D), 200U);
  EXPECT_EQ(sizeof(CUDA_MEMCPY3D_PEER), 200U);
  EXPECT_EQ(sizeof(CUDA_ARRAY_DESCRIPTOR), 24U);
  EXPECT_EQ(sizeof(CUDA_ARRAY3D_DESCRIPTOR), 40U);
  EXPECT_EQ(CU_MEMHOSTREGISTER_READ_ONLY, 8U);
}

TEST(CudaLayout, GraphNodes) {
  EXPECT_EQ(sizeof(CUDA_KERNEL_NODE_PARAMS_v1), 56U);
  EXPECT_EQ(sizeof(CUDA_KERNEL_NODE_PARAMS_v2), 72U);
  EXPECT_EQ(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern), 56U);
  EXPECT_EQ(sizeof(CUDA_KERNEL_NODE_PARAMS_v3), 72U);
  EXPECT_EQ(sizeof(CUDA_MEMSET_NODE_PARAMS), 40U);
  EXPECT_EQ(sizeof(CUDA_MEMSET_NODE_PARAMS_v2), 48U);
  EXPECT_EQ(sizeof(CUDA_HOST_NODE_PARAMS), 16U);
  EXPECT_EQ(sizeof(CUDA_MEMCPY_NODE_PARAMS), 216U);
  EXPECT_EQ(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), 120U);
  EXPECT_EQ(offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize), 104U);
  EXPECT_EQ(offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr), 112U);
  EXPECT_EQ(sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS), 32U);
  EXPECT_EQ(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), 32U);
  EXPECT_EQ(sizeof(CUgraphExecUpdateResultInfo), 24U);
  EXPECT_EQ(sizeof(CUgraphEdgeData), 8U);
  EXPECT_EQ(sizeof(CUgraphNodeParams), 256U);
  EXPECT_EQ(offsetof(CUgraphNodeParams, kernel), 16U);
  EXPECT_EQ(offsetof(CUgraphNodeParams, alloc), 16U);
  EXPECT_EQ(offsetof(CUgraphNodeParams, reserved2), 248U);
}

TEST(CudaLayout, Contexts) {
  EXPECT_EQ(sizeof(CUexecAffinityParam), 8U);
  EXPECT_EQ(sizeof(CUctxCreateParams), 24U);
}

TEST(CudaNumbers, ResultsThatTenantsSee) {
  EXPECT_EQ(CUDA_SUCCESS, 0U);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, 1U);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, 2U);
  EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, 3U);
  EXPECT_EQ(CUDA_ERROR_NO_DEVICE, 100U);
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, 201U);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, 400U);
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, 500U);
  EXPECT_EQ(CUDA_ERROR_NOT_READY, 600U);
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, 801U);
  EXPECT_EQ(CUDA_ERROR_UNKNOWN, 999U);
}

TEST(CudaNumbers, SpecialStreamsAreOneAndTwo) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(CU_STREAM_LEGACY), 1U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(CU_STREAM_PER_THREAD), 2U);
}

TEST(CudaSignatures, FirstVersionOfKernelNodesTakesTheFirstVersionOfItsParameters) {
  EXPECT_TRUE((std::is_same_v<cuGraphKernelNodeGetParams_fn,
                              CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1*)>));
  EXPECT_TRUE((std::is_same_v<cuGraphKernelNodeGetParams_v2_fn,
                              CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2*)>));
}

TEST(NvmlLayout, DevicesAndMemory) {
  EXPECT_EQ(sizeof(nvmlPciInfo_t), 68U);
  EXPECT_EQ(offsetof(nvmlPciInfo_t, busId), 36U);
  EXPECT_EQ(sizeof(nvmlMemory_t), 24U);
  EXPECT_EQ(sizeof(nvmlMemory_v2_t), 40U);
  EXPECT_EQ(offsetof(nvmlMemory_v2_t, used), 32U);
  EXPECT_EQ(nvmlMemory_v2, 0x2000028U);
  EXPECT_EQ(sizeof(nvmlBAR1Memory_t), 24U);
  EXPECT_EQ(sizeof(nvmlSetMemoryLimits_v1_t), 24U);
  EXPECT_EQ(sizeof(nvmlGetMemoryLimits_v1_t), 32U);
}

TEST(NvmlLayout, Processes) {
  EXPECT_EQ(sizeof(nvmlProcessInfo_v1_t), 16U);
  EXPECT_EQ(sizeof(nvmlProcessInfo_v2_t), 24U);
  EXPECT_EQ(sizeof(nvmlProcessUtilizationSample_t), 32U);
  EXPECT_EQ(sizeof(nvmlAccountingStats_t), 56U);
}

TEST(NvmlLayout, Telemetry) {
  EXPECT_EQ(sizeof(nvmlUtilization_t), 8U);
  EXPECT_EQ(sizeof(nvmlSample_t), 16U);
  EXPECT_EQ(sizeof(nvmlFieldValue_t), 40U);
  EXPECT_EQ(offsetof(nvmlFieldValue_t, value), 32U);
  EXPECT_EQ(sizeof(nvmlTemperature_v1_t), 12U);
  EXPECT_EQ(sizeof(nvmlEventData_t), 32U);
  EXPECT_EQ(offsetof(nvmlEventData_t, eventData), 16U);
  EXPECT_EQ(sizeof(nvmlGpmMetric_t), 40U);
  EXPECT_EQ(offsetof(nvmlGpmMetricsGet_t, metrics), 24U);
  EXPECT_EQ(nvmlEventTypeXidCriticalError, 8U);
}

TEST(NvmlSignatures, RunningProcessesChangedTheirStructWithTheSecondVersion) {
  EXPECT_TRUE(
      (std::is_same_v<nvmlDeviceGetComputeRunningProcesses_fn,
                      nvmlReturn_t (*)(nvmlDevice_t, unsigned int*, nvmlProcessInfo_v1_t*)>));
  EXPECT_TRUE(
      (std::is_same_v<nvmlDeviceGetComputeRunningProcesses_v3_fn,
                      nvmlReturn_t (*)(nvmlDevice_t, unsigned int*, nvmlProcessInfo_v2_t*)>));
}

}  // namespace
