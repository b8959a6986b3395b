// Modules, libraries, functions and variables.

#include <string>

#include "gpu.h"

namespace divvy::conformance {

CASE(modules, functions_are_found_by_name) {
  if (!load_kernels(t)) return;
  CUfunction function = nullptr;
  CODE(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, module, "nobody"));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuModuleGetFunction(&function, module, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuModuleGetFunction(nullptr, module, "empty"));
  unsigned count = 0;
  OK(cu.cuModuleGetFunctionCount(&count, module));
  EQUAL(uint64_t{3}, uint64_t{count});
  const char* name = nullptr;
  OK(cu.cuFuncGetName(&name, fill32));
  EQUAL("fill32", std::string_view(name));
  CUmodule of = nullptr;
  OK(cu.cuFuncGetModule(&of, fill32));
  TRUE_(of == module);
  OK(cu.cuModuleUnload(module));
}

CASE(modules, variables_have_an_address) {
  if (!load_kernels(t)) return;
  CUdeviceptr address = 0;
  size_t size = 0;
  OK(cu.cuModuleGetGlobal_v2(&address, &size, module, "table"));
  EQUAL(uint64_t{64}, uint64_t{size});
  OK(cu.cuMemsetD32_v2(address, 17, 16));
  EQUAL(uint64_t{17}, uint64_t{word_at(address + 60)});
  CODE(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetGlobal_v2(&address, &size, module, "nothing"));
  OK(cu.cuModuleGetGlobal_v2(&address, nullptr, module, "table"));
}

CASE(modules, wrong_images_are_refused) {
  if (!start_gpu(t)) return;
  CUmodule loaded = nullptr;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuModuleLoadData(&loaded, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuModuleLoadData(nullptr, kCaseKernels));
  t.recorded("not_ptx", cu.cuModuleLoadData(&loaded, "this is no program at all, only words"));
  t.recorded("empty_text", cu.cuModuleLoadData(&loaded, ""));
  t.recorded("syntax_error",
             cu.cuModuleLoadData(&loaded,
                                 ".version 7.0\n.target sm_70\n.address_size 64\n"
                                 ".visible .entry broken() { bogus.instruction %r1; }\n"));
  t.recorded("version_from_the_future",
             cu.cuModuleLoadData(&loaded,
                                 ".version 99.0\n.target sm_70\n.address_size 64\n"
                                 ".visible .entry late() { ret; }\n"));
  t.recorded("only_a_header",
             cu.cuModuleLoadData(&loaded, ".version 7.0\n.target sm_70\n.address_size 64\n"));
  CODE(CUDA_ERROR_FILE_NOT_FOUND, cu.cuModuleLoad(&loaded, "/nonexistent/kernels.ptx"));
}

CASE(modules, load_with_options) {
  if (!start_gpu(t)) return;
  CUmodule loaded = nullptr;
  std::string log(512, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t{512})};
  OK(cu.cuModuleLoadDataEx(&loaded, kCaseKernels, 2, options, values));
  OK(cu.cuModuleUnload(loaded));
  OK(cu.cuModuleLoadDataEx(&loaded, kCaseKernels, 0, nullptr, nullptr));
  OK(cu.cuModuleUnload(loaded));
  CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
  OK(cu.cuModuleGetLoadingMode(&mode));
  t.recorded("loading_mode", uint64_t{mode});
}

CASE(modules, functions_know_their_limits) {
  if (!load_kernels(t)) return;
  int value = 0;
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, empty));
  EQUAL(uint64_t{1024}, static_cast<uint64_t>(value));
  CUfunction shared1k = nullptr;
  OK(cu.cuModuleGetFunction(&shared1k, module, "shared1k"));
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, shared1k));
  EQUAL(uint64_t{1024}, static_cast<uint64_t>(value));
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, empty));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(value));
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, empty));
  t.recorded("ptx_version", static_cast<uint64_t>(value));
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, empty));
  t.recorded("binary_version", static_cast<uint64_t>(value));
  OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, empty));
  t.recorded("dynamic_shared", static_cast<uint64_t>(value));
  t.recorded("unknown_attribute",
             cu.cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(99), empty));
  size_t offset = 99;
  size_t size = 99;
  OK(cu.cuFuncGetParamInfo(fill32, 2, &offset, &size));
  EQUAL(uint64_t{16}, uint64_t{offset});
  EQUAL(uint64_t{4}, uint64_t{size});
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(fill32, 3, &offset, &size));
}

CASE(modules, libraries_hold_kernels) {
  if (!start_gpu(t)) return;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  OK(cu.cuLibraryLoadData(&library, kCaseKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  OK(cu.cuLibraryGetKernelCount(&count, library));
  EQUAL(uint64_t{3}, uint64_t{count});
  OK(cu.cuLibraryGetKernel(&kernel, library, "empty"));
  CODE(CUDA_ERROR_NOT_FOUND, cu.cuLibraryGetKernel(&kernel, library, "nobody"));
  OK(cu.cuLibraryGetKernel(&kernel, library, "empty"));
  OK(cu.cuKernelGetFunction(&function, kernel));
  OK(cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  // A kernel handle may stand where a function is asked for.
  OK(cu.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr,
                       nullptr));
  CUdeviceptr address = 0;
  size_t size = 0;
  OK(cu.cuLibraryGetGlobal(&address, &size, library, "table"));
  EQUAL(uint64_t{64}, uint64_t{size});
  OK(cu.cuCtxSynchronize());
  OK(cu.cuLibraryUnload(library));
}

CASE(modules, cost_little_memory) {
  if (!start_gpu(t)) return;
  const uint64_t before = free_bytes();
  CUmodule loaded = nullptr;
  OK(cu.cuModuleLoadData(&loaded, kCaseKernels));
  const uint64_t taken = before - free_bytes();
  TRUE_(taken <= 32 * kMiB);
  t.note("cost", taken);
  OK(cu.cuModuleUnload(loaded));
}

CASE(modules, occupancy_is_bounded_by_the_threads) {
  if (!load_kernels(t)) return;
  int blocks = 0;
  const int threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 1024, 0));
  EQUAL(static_cast<uint64_t>(threads / 1024), static_cast<uint64_t>(blocks));
  OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 32, 0));
  t.recorded("blocks_of_32", static_cast<uint64_t>(blocks));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, empty, 32, 0));
}

}  // namespace divvy::conformance
