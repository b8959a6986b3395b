// The handles and scalar types of the CUDA driver, on a 64-bit machine. Part of abi/cuda_types.h,
// which says how these declarations relate to the toolkit's.

#ifndef DIVVY_ABI_CUDA_HANDLES_H
#define DIVVY_ABI_CUDA_HANDLES_H

#include <stddef.h>
#include <stdint.h>

// The CUDA version whose ABI is declared here: major * 1000 + minor * 10.
constexpr int CUDA_VERSION = 13000;

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUgraphConditionalHandle = cuuint64_t;

// Objects that belong to the driver: nobody else looks behind these pointers.
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUlinkState = struct CUlinkState_st*;
using CUarray = struct CUarray_st*;
using CUmipmappedArray = struct CUmipmappedArray_st*;
using CUevent = struct CUevent_st*;
using CUstream = struct CUstream_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphDeviceNode = struct CUgraphDeviceUpdatableNode_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgreenCtx = struct CUgreenCtx_st*;
using CUexternalMemory = struct CUextMemory_st*;
using CUexternalSemaphore = struct CUextSemaphore_st*;

constexpr CUdevice CU_DEVICE_CPU = -1;
constexpr CUdevice CU_DEVICE_INVALID = -2;

// Two stream handles that are numbers and not objects. They are macros because a pointer made from
// a number is not a constant expression.
#define CU_STREAM_LEGACY (reinterpret_cast<CUstream>(uintptr_t{1}))
#define CU_STREAM_PER_THREAD (reinterpret_cast<CUstream>(uintptr_t{2}))

// CUuuid identifies a device, and a private table of cuGetExportTable.

struct CUuuid {
  char bytes[16];
};

#endif  // DIVVY_ABI_CUDA_HANDLES_H
