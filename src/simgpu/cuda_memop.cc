// Stream memory operations: waiting for a value in memory, and writing one, in stream order.
#include "simgpu/driver.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

CUresult submit(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* operations,
                unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  // One less than documented, as an H200 has it.
  constexpr unsigned kMostOperations = 255;
  if (flags != 0 || count > kMostOperations || (count > 0 && operations == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Stream* stream = nullptr;
  if (CUresult bad = call.driver.resolve_stream(handle, call.context, &stream)) return bad;
  MemOpWork work;
  work.operations.assign(operations, operations + count);
  return submit_work(call, *stream, std::move(work));
}

CUresult wait(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wide) {
  CUstreamBatchMemOpParams params{};
  params.waitValue.operation =
      wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
  params.waitValue.address = address;
  params.waitValue.value64 = value;
  params.waitValue.flags = flags;
  return submit(stream, 1, &params, 0);
}

CUresult write(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wide) {
  CUstreamBatchMemOpParams params{};
  params.writeValue.operation =
      wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
  params.writeValue.address = address;
  params.writeValue.value64 = value;
  params.writeValue.flags = flags;
  return submit(stream, 1, &params, 0);
}

CUresult refuse() {
  Call call(Call::kContext);
  return call.error != CUDA_SUCCESS ? call.error : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

// The first versions are refused, as by every driver since 12.0 unless a module option asks for
// them; the second ones do the work. Each has a per-thread twin.
#define SIMGPU_MEMOP(name, type, function, wide)                                              \
  SIMGPU_EXPORT CUresult name##_v2(CUstream stream, CUdeviceptr address, type value,          \
                                   unsigned int flags) {                                      \
    return function(stream, address, value, flags, wide);                                     \
  }                                                                                           \
  SIMGPU_EXPORT CUresult name##_v2_ptsz(CUstream stream, CUdeviceptr address, type value,     \
                                        unsigned int flags) {                                 \
    return function(per_thread(stream), address, value, flags, wide);                         \
  }                                                                                           \
  SIMGPU_EXPORT CUresult name(CUstream, CUdeviceptr, type, unsigned int) { return refuse(); } \
  SIMGPU_EXPORT CUresult name##_ptsz(CUstream, CUdeviceptr, type, unsigned int) { return refuse(); }

SIMGPU_MEMOP(cuStreamWaitValue32, cuuint32_t, wait, false)
SIMGPU_MEMOP(cuStreamWaitValue64, cuuint64_t, wait, true)
SIMGPU_MEMOP(cuStreamWriteValue32, cuuint32_t, write, false)
SIMGPU_MEMOP(cuStreamWriteValue64, cuuint64_t, write, true)
#undef SIMGPU_MEMOP

SIMGPU_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                             CUstreamBatchMemOpParams* params, unsigned int flags) {
  return submit(stream, count, params, flags);
}
SIMGPU_EXPORT CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                                  CUstreamBatchMemOpParams* params,
                                                  unsigned int flags) {
  return submit(per_thread(stream), count, params, flags);
}
SIMGPU_EXPORT CUresult cuStreamBatchMemOp(CUstream, unsigned int, CUstreamBatchMemOpParams*,
                                          unsigned int) {
  return refuse();
}
SIMGPU_EXPORT CUresult cuStreamBatchMemOp_ptsz(CUstream, unsigned int, CUstreamBatchMemOpParams*,
                                               unsigned int) {
  return refuse();
}

}  // namespace divvy::simgpu
