// Launches and occupancy.
#include <algorithm>

#include "simgpu/driver.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

CUresult launch(CUfunction handle, const KernelWork& shape, CUstream stream_handle,
                void** kernel_params, void** extra) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Function* function = resolve_function(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (CUresult bad = call.driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  // A function of a module lives in one context; a kernel of a library in all of them.
  const Context* home = function->module->context;
  if (home != nullptr && home != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  const GpuSpec& spec = call.driver.spec(stream->context->device);
  if (CUresult bad = check_launch(*function, shape, spec)) return bad;
  KernelWork work = shape;
  work.function = function;
  if (CUresult bad = collect_params(work, kernel_params, extra)) return bad;
  if (stream->capture != nullptr) return capture_work(call, *stream, std::move(work));
  if (stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *stream->context)) {
      return refused;
    }
  }
  Op op = kernel_op(work, spec, call.driver.shared().default_kernel_ns);
  op.cost_ns += call.driver.shared().launch_ns;
  call.driver.shared()
      .slot[call.driver.slot()]
      .gpu[call.driver.gpu_of(stream->context->device)]
      .launches.fetch_add(1, std::memory_order_relaxed);
  call.driver.enqueue(call.lock, *stream, std::move(op));
  return CUDA_SUCCESS;
}

CUresult launch_ex(const CUlaunchConfig* config, CUfunction function, CUstream stream,
                   void** kernel_params, void** extra) {
  KernelWork work;
  work.grid[0] = config->gridDimX;
  work.grid[1] = config->gridDimY;
  work.grid[2] = config->gridDimZ;
  work.block[0] = config->blockDimX;
  work.block[1] = config->blockDimY;
  work.block[2] = config->blockDimZ;
  work.shared_bytes = config->sharedMemBytes;
  if (config->numAttrs > 0 && config->attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      work.cooperative = attribute.value.cooperative != 0;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = attribute.value.clusterDim;
      // Clusters divide the grid evenly.
      if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0 || config->gridDimX % cluster.x != 0 ||
          config->gridDimY % cluster.y != 0 || config->gridDimZ % cluster.z != 0) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      }
    }
  }
  return launch(function, work, stream, kernel_params, extra);
}

KernelWork shape_of(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                    unsigned shared, bool cooperative) {
  KernelWork work;
  work.grid[0] = gx;
  work.grid[1] = gy;
  work.grid[2] = gz;
  work.block[0] = bx;
  work.block[1] = by;
  work.block[2] = bz;
  work.shared_bytes = shared;
  work.cooperative = cooperative;
  return work;
}

}  // namespace

SIMGPU_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy,
                                      unsigned int gz, unsigned int bx, unsigned int by,
                                      unsigned int bz, unsigned int shared, CUstream stream,
                                      void** params, void** extra) {
  return launch(f, shape_of(gx, gy, gz, bx, by, bz, shared, false), stream, params, extra);
}
SIMGPU_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy,
                                           unsigned int gz, unsigned int bx, unsigned int by,
                                           unsigned int bz, unsigned int shared, CUstream stream,
                                           void** params, void** extra) {
  return launch(f, shape_of(gx, gy, gz, bx, by, bz, shared, false), per_thread(stream), params,
                extra);
}

SIMGPU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params,
                                        void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_ex(config, f, config->hStream, params, extra);
}
SIMGPU_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f,
                                             void** params, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_ex(config, f, per_thread(config->hStream), params, extra);
}

SIMGPU_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
                                                 unsigned int gz, unsigned int bx, unsigned int by,
                                                 unsigned int bz, unsigned int shared,
                                                 CUstream stream, void** params) {
  return launch(f, shape_of(gx, gy, gz, bx, by, bz, shared, true), stream, params, nullptr);
}
SIMGPU_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx,
                                                      unsigned int gy, unsigned int gz,
                                                      unsigned int bx, unsigned int by,
                                                      unsigned int bz, unsigned int shared,
                                                      CUstream stream, void** params) {
  return launch(f, shape_of(gx, gy, gz, bx, by, bz, shared, true), per_thread(stream), params,
                nullptr);
}

SIMGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction handle, int block_size, size_t dynamic_shared, unsigned int) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Function* function = resolve_function(handle);
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const size_t shared = dynamic_shared + function->kernel.static_shared + 1024;
  const int by_threads = block_size > 1024 ? 0 : 2048 / ((block_size + 31) / 32 * 32);
  const int by_shared = static_cast<int>(std::min<size_t>(233472 / shared, 32));
  *blocks = std::min({by_threads, by_shared, 32});
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                                   int block_size,
                                                                   size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size,
                                                              dynamic_shared, 0);
}

SIMGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                                 CUfunction handle,
                                                                 CUoccupancyB2DSize, size_t,
                                                                 int limit, unsigned int) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (resolve_function(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *block = limit > 0 ? std::min(limit, 1024) : 1024;
  *grid = static_cast<int>(call.driver.spec(call.context->device).sm_count) *
          (2048 / ((*block + 31) / 32 * 32));
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                                        CUoccupancyB2DSize sizes,
                                                        size_t dynamic_shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, sizes, dynamic_shared,
                                                   limit, 0);
}

SIMGPU_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle,
                                                               int blocks, int block_size) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Function* function = resolve_function(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const size_t each = 233472 / static_cast<size_t>(blocks);
  const size_t taken = function->kernel.static_shared + 1024;
  *bytes = each > taken ? std::min<size_t>(each - taken, 232448) : 0;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
