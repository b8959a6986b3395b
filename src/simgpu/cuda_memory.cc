// Plain device memory: allocation, freeing, and what the GPU has left.
#include <algorithm>

#include "simgpu/memory.h"

namespace divvy::simgpu {
namespace {

constexpr size_t kPitchUnit = 512;

}  // namespace

SIMGPU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address = alloc_device(call.driver, *call.context, bytes, MemoryKind::kDevice);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width,
                                          size_t height, unsigned int element) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      (element != 4 && element != 8 && element != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (width > (size_t{1} << 46) / height) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t row = round_up(width, kPitchUnit);
  const uint64_t address =
      alloc_device(call.driver, *call.context, row * height, MemoryKind::kDevice);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  *pitch = row;
  return CUDA_SUCCESS;
}

// Nothing that still runs may lose its memory, so a free waits for the whole context first.
SIMGPU_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  // Freeing nothing needs no context, only a driver.
  if (address == 0 && Driver::get().initialised() && context_stack().empty()) return CUDA_SUCCESS;
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  if (address == 0) return CUDA_SUCCESS;
  const auto find = [&]() -> const Allocation* {
    const Allocation* found = driver.map().find(address);
    const bool ours = found != nullptr && found->base == address && program_may_free(*found);
    return ours ? found : nullptr;
  };
  const Allocation* found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = found->context != nullptr ? found->context : call.context;
  driver.synchronize(call.lock, *context);
  if (CUresult failed = context->sticky) return failed;
  // The lock was let go while waiting: another thread may have freed it meanwhile.
  found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  free_any(driver, *found);
  trim_pools_after_wait(driver);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  driver.engine().advance();
  driver.state().reap();
  const GpuSpec& spec = driver.spec(call.context->device);
  const uint64_t total = spec.memory_bytes - spec.reserved_bytes;
  const uint64_t used = driver.state().used_bytes(driver.gpu_of(call.context->device));
  if (free_bytes != nullptr) *free_bytes = total - std::min(used, total);
  if (total_bytes != nullptr) *total_bytes = total;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size,
                                               CUdeviceptr address) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Allocation* found = call.driver.map().find(address);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->base;
  if (size != nullptr) *size = found->size;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
