// Before and right after cuInit: what may be called when, versions, error texts.

#include <cstring>
#include <string>

#include "gpu.h"

namespace divvy::conformance {

CASE(init, calls_before_it_are_refused) {
  int count = 0;
  CUdevice ordinal = 0;
  CUcontext current = nullptr;
  CUdeviceptr pointer = 0;
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGet(&ordinal, 0));
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuDevicePrimaryCtxRetain(&current, 0));
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxGetCurrent(&current));
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&pointer, 4096));
  CODE(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxSynchronize());
}

CASE(init, version_and_error_names_work_before_it) {
  int version = 0;
  OK(cu.cuDriverGetVersion(&version));
  TRUE_(version >= 12000);
  t.note("version", static_cast<uint64_t>(version));
  const char* name = nullptr;
  OK(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
  EQUAL("CUDA_ERROR_OUT_OF_MEMORY", std::string_view(name));
}

CASE(init, flags_must_be_zero) {
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuInit(1));
  OK(cu.cuInit(0));
}

CASE(init, twice_is_fine) {
  OK(cu.cuInit(0));
  OK(cu.cuInit(0));
}

CASE(init, calls_without_a_context_are_refused) {
  OK(cu.cuInit(0));
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule loaded = nullptr;
  size_t free = 0;
  size_t total = 0;
  void* host = nullptr;
  CUdevice current = 0;
  unsigned flags = 0;
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&pointer, 4096));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemGetInfo_v2(&free, &total));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuStreamCreate(&stream, 0));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuEventCreate(&event, 0));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuModuleLoadData(&loaded, kCaseKernels));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSynchronize());
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetDevice(&current));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetFlags(&flags));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemHostAlloc(&host, 4096, 0));
  t.recorded("free_of_null", cu.cuMemFree_v2(0));
  t.recorded("launch_of_null",
             cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  t.recorded("stream_query_of_null", cu.cuStreamQuery(nullptr));
}

CASE(init, no_context_is_current_at_first) {
  OK(cu.cuInit(0));
  auto* current = reinterpret_cast<CUcontext>(uintptr_t{1});
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == nullptr);
}

CASE(init, null_results_are_refused) {
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuDriverGetVersion(nullptr));
  OK(cu.cuInit(0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGetCount(nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceGet(nullptr, 0));
  t.recorded("current_context_into_null", cu.cuCtxGetCurrent(nullptr));
}

CASE(errors, have_names_and_texts) {
  const char* name = nullptr;
  const char* text = nullptr;
  struct Known {
    CUresult code;
    const char* name;
  };
  for (const Known& known :
       {Known{CUDA_SUCCESS, "CUDA_SUCCESS"},
        Known{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        Known{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
        Known{CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        Known{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        Known{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"}}) {
    OK(cu.cuGetErrorName(known.code, &name));
    t.equal(known.name, std::string_view(name), known.name);
    OK(cu.cuGetErrorString(known.code, &text));
    t.is_true(std::string(known.name) + " has a text", text != nullptr && text[0] != '\0');
  }
  OK(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  t.recorded("out_of_memory_text", std::string_view(text));
}

CASE(errors, unknown_codes_have_no_name) {
  const char* name = "unchanged";
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName(static_cast<CUresult>(12345), &name));
  TRUE_(name == nullptr);
  const char* text = "unchanged";
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorString(static_cast<CUresult>(12345), &text));
  TRUE_(text == nullptr);
}

}  // namespace divvy::conformance
