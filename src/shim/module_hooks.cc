// Modules and libraries: code, constants and variables that come to the GPU with them.
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/overhead.h"

using divvy::shim::charged_slice;
using divvy::shim::g_cuda;

namespace {

CUresult measured(CUresult result) {
  if (result == CUDA_SUCCESS) divvy::shim::measure_overhead_lazily(charged_slice());
  return result;
}

}  // namespace

DIVVY_EXPORT CUresult cuModuleLoad(CUmodule* out, const char* path) {
  DIVVY_NEED(cuModuleLoad);
  return measured(g_cuda.cuModuleLoad(out, path));
}
DIVVY_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  DIVVY_NEED(cuModuleLoadData);
  return measured(g_cuda.cuModuleLoadData(out, image));
}
DIVVY_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                                         CUjit_option* options, void** values) {
  DIVVY_NEED(cuModuleLoadDataEx);
  return measured(g_cuda.cuModuleLoadDataEx(out, image, count, options, values));
}
DIVVY_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  DIVVY_NEED(cuModuleLoadFatBinary);
  return measured(g_cuda.cuModuleLoadFatBinary(out, image));
}
DIVVY_EXPORT CUresult cuModuleUnload(CUmodule module) {
  DIVVY_NEED(cuModuleUnload);
  return measured(g_cuda.cuModuleUnload(module));
}
DIVVY_EXPORT CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit_options,
                                        void** jit_values, unsigned int jit_count,
                                        CUlibraryOption* options, void** values,
                                        unsigned int count) {
  DIVVY_NEED(cuLibraryLoadData);
  return measured(g_cuda.cuLibraryLoadData(out, code, jit_options, jit_values, jit_count, options,
                                           values, count));
}
DIVVY_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path,
                                            CUjit_option* jit_options, void** jit_values,
                                            unsigned int jit_count, CUlibraryOption* options,
                                            void** values, unsigned int count) {
  DIVVY_NEED(cuLibraryLoadFromFile);
  return measured(g_cuda.cuLibraryLoadFromFile(out, path, jit_options, jit_values, jit_count,
                                               options, values, count));
}
DIVVY_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  DIVVY_NEED(cuLibraryUnload);
  return measured(g_cuda.cuLibraryUnload(library));
}
