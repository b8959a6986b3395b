// The CUDA driver as a table of function pointers, found at run time. gpuload links to no CUDA
// library: it loads libcuda.so.1 and asks cuGetProcAddress for every entry point, as the CUDA
// runtime does, so that an interposed library sees the same calls that it sees from real programs.
//
// The table is filled once by the main thread; the functions may then be called from any thread.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "abi/cuda.h"

namespace divvy::gpuload {

// There is no driver on this machine, or it lacks something that gpuload needs.
class NoDriver : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A driver call that must succeed did not. A load generator has one answer to that: say which call
// failed and end. Exceptions stay inside this program; main turns them into a sentence.
class CudaFailure : public std::runtime_error {
 public:
  CudaFailure(std::string call, CUresult code, std::string name);
  [[nodiscard]] CUresult code() const { return code_; }

 private:
  CUresult code_;
};

struct DriverApi {
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) symbol##_fn symbol = nullptr;
#include "abi/cuda_functions.inc"

  int version = 0;

  // Loads the driver; throws NoDriver with what to do. Does not call cuInit.
  static DriverApi load();

  // The same functions as the driver's library itself exports them, past whatever library was
  // loaded in front of it. What is not exported stays null. Throws NoDriver.
  static DriverApi load_past_hooks();

  // "CUDA_ERROR_OUT_OF_MEMORY"; for a code that the driver does not know, the number.
  [[nodiscard]] std::string error_name(CUresult code) const;
};

[[noreturn]] void raise_missing(const char* symbol);
[[noreturn]] void raise_failure(const DriverApi& api, const char* symbol, CUresult code);

template <typename... Parameters, typename... Arguments>
void checked_call(const DriverApi& api, const char* symbol, CUresult (*function)(Parameters...),
                  Arguments&&... arguments) {
  if (function == nullptr) raise_missing(symbol);
  const CUresult code = function(std::forward<Arguments>(arguments)...);
  if (code != CUDA_SUCCESS) raise_failure(api, symbol, code);
}

}  // namespace divvy::gpuload

// CU_CALL(api, cuMemAlloc_v2, &pointer, bytes): calls through the table and throws CudaFailure
// unless it answers CUDA_SUCCESS. Where a refusal is an answer, call api.cuMemAlloc_v2 itself.
#define CU_CALL(api, symbol, ...) \
  ::divvy::gpuload::checked_call((api), #symbol, (api).symbol __VA_OPT__(, ) __VA_ARGS__)
