// Kernel launches: every way of launching, geometry and its limits.

#include <array>

#include "gpu.h"

namespace divvy::conformance {
namespace {

CUresult launch_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared = 0) {
  return cu.cuLaunchKernel(empty, gx, gy, gz, bx, by, bz, shared, nullptr, nullptr, nullptr);
}

CUlaunchConfig config_of(unsigned blocks, unsigned threads) {
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  return config;
}

}  // namespace

CASE(launches, geometry_is_checked) {
  if (!load_kernels(t)) return;
  OK(launch_shape(1, 1, 1, 1024, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(0, 1, 1, 1, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 0, 1, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 1, 0, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 1, 1025, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 1, 1, 1, 65));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 1, 64, 32, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 65536, 1, 1, 1, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(0x80000000U, 1, 1, 1, 1, 1));
  OK(cu.cuCtxSynchronize());
}

CASE(launches, shared_memory_needs_permission_above_48_kib) {
  if (!load_kernels(t)) return;
  OK(launch_shape(1, 1, 1, 32, 1, 1, 48U << 10U));
  CODE(CUDA_ERROR_INVALID_VALUE, launch_shape(1, 1, 1, 32, 1, 1, 49U << 10U));
  const int most = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  t.recorded("most", static_cast<uint64_t>(most));
  OK(cu.cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
  OK(launch_shape(1, 1, 1, 32, 1, 1, static_cast<unsigned>(most)));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuFuncSetAttribute(empty, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1024));
  OK(cu.cuCtxSynchronize());
}

CASE(launches, null_function_is_refused) {
  if (!start_gpu(t)) return;
  t.recorded("plain", cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  const CUlaunchConfig config = config_of(1, 32);
  t.recorded("ex", cu.cuLaunchKernelEx(&config, nullptr, nullptr, nullptr));
  t.recorded("cooperative",
             cu.cuLaunchCooperativeKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr));
}

CASE(launches, arguments_may_be_packed) {
  if (!load_kernels(t)) return;
  struct {
    uint64_t to;
    uint64_t count;
    uint32_t value;
  } arguments{};
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  arguments.to = memory;
  arguments.count = 16;
  arguments.value = 99;
  size_t bytes = 20;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cu.cuLaunchKernel(fill32, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  EQUAL(uint64_t{99}, uint64_t{word_at(memory)});
  std::array<void*, 3> parameters = {&arguments.to, &arguments.count, &arguments.value};
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuLaunchKernel(fill32, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters.data(), extra));
  t.recorded("no_arguments",
             cu.cuLaunchKernel(fill32, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
}

CASE(launches, arguments_are_read_at_the_call) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  uint64_t count = 16;
  uint32_t value = 1;
  std::array<void*, 3> parameters = {&memory, &count, &value};
  OK(cu.cuLaunchKernel(fill32, 1, 1, 1, 32, 1, 1, 0, stream, parameters.data(), nullptr));
  value = 2;
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{1}, uint64_t{word_at(memory)});
}

CASE(launches, cooperative_ones_must_fit_at_once) {
  if (!load_kernels(t)) return;
  int blocks = 0;
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 1024, 0));
  const auto most =
      static_cast<unsigned>(blocks * attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  OK(cu.cuLaunchCooperativeKernel(empty, most, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
  CODE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
       cu.cuLaunchCooperativeKernel(empty, most + 1, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
  OK(cu.cuCtxSynchronize());
}

CASE(launches, extended_ones_work) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  uint64_t count = 16;
  uint32_t value = 12;
  std::array<void*, 3> parameters = {&memory, &count, &value};
  CUlaunchConfig config = config_of(1, 32);
  OK(cu.cuLaunchKernelEx(&config, fill32, parameters.data(), nullptr));
  EQUAL(uint64_t{12}, uint64_t{word_at(memory)});
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernelEx(nullptr, fill32, parameters.data(), nullptr));
  config.gridDimX = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernelEx(&config, fill32, parameters.data(), nullptr));
}

CASE(launches, extended_ones_take_attributes) {
  if (!load_kernels(t)) return;
  std::array<CUlaunchAttribute, 2> attributes{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value.priority = 0;
  CUlaunchConfig config = config_of(2, 32);
  config.attrs = attributes.data();
  config.numAttrs = 2;
  OK(cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
  config.gridDimX = 1'000'000;
  CODE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
       cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
  attributes[0] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  config.numAttrs = 1;
  OK(cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
  OK(cu.cuCtxSynchronize());
  config.attrs = nullptr;
  config.numAttrs = 1;
  t.recorded("attributes_at_null", cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
}

CASE(launches, clusters_divide_the_grid) {
  if (!load_kernels(t)) return;
  if (attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 1) {
    t.skip("this GPU has no clusters");
    return;
  }
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config = config_of(4, 32);
  config.attrs = &cluster;
  config.numAttrs = 1;
  t.recorded("four_blocks_in_twos", cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
  config.gridDimX = 3;
  t.recorded("three_blocks_in_twos", cu.cuLaunchKernelEx(&config, empty, nullptr, nullptr));
  OK(cu.cuCtxSynchronize());
}

CASE(launches, per_thread_variants_use_the_threads_stream) {
  if (!load_kernels(t)) return;
  Gate gate(t, CU_STREAM_PER_THREAD);
  if (!gate.works()) return;
  CUdeviceptr memory = 0;
  void* host = nullptr;
  OK(cu.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  memory = reinterpret_cast<CUdeviceptr>(host);
  *static_cast<volatile unsigned*>(host) = 0;
  uint64_t count = 1;
  uint32_t value = 3;
  std::array<void*, 3> parameters = {&memory, &count, &value};
  OK(cu.cuLaunchKernel_ptsz(fill32, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters.data(), nullptr));
  EQUAL(uint64_t{0}, uint64_t{*static_cast<volatile unsigned*>(host)});
  gate.open();
  OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
  EQUAL(uint64_t{3}, uint64_t{*static_cast<volatile unsigned*>(host)});
  CUlaunchConfig config = config_of(1, 32);
  OK(cu.cuLaunchKernelEx_ptsz(&config, empty, nullptr, nullptr));
  OK(cu.cuLaunchCooperativeKernel_ptsz(empty, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr));
  OK(cu.cuStreamSynchronize_ptsz(nullptr));
}

CASE(launches, many_in_a_row_keep_their_order) {
  if (!load_kernels(t)) return;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  uint64_t refused = 0;
  for (uint32_t i = 1; i <= 2000; ++i) refused += launch_fill(memory, 4, i, stream) != CUDA_SUCCESS;
  EQUAL(uint64_t{0}, refused);
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{2000}, uint64_t{word_at(memory)});
}

}  // namespace divvy::conformance
