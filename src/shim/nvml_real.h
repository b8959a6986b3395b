// The real NVML's entry points, as the shim calls them. An entry point that this library does not
// have is null.
#pragma once

#include <cstdint>

#include "abi/nvml.h"

namespace divvy::shim {

// A function of which only the calling convention is known (nvml_set_functions.inc).
using NvmlSet = nvmlReturn_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

struct RealNvml {
#define DIVVY_NVML(symbol, arguments) nvmlReturn_t(*symbol) arguments;
#include "abi/nvml_functions.inc"
#define DIVVY_NVML_EXTRA(symbol, arguments) nvmlReturn_t(*symbol) arguments;
#include "shim/nvml_extra_functions.inc"
#define DIVVY_NVML_SET(symbol) NvmlSet symbol;
#include "shim/nvml_set_functions.inc"
};

// Valid after load_real_nvml() has returned true, and constant from then on.
extern constinit RealNvml g_nvml;

// Finds libnvidia-ml.so.1 and fills g_nvml. False when there is none. Idempotent, thread-safe.
bool load_real_nvml();

// Whether the library has the entry point `pointer`, a member of g_nvml.
template <typename Function>
inline bool have_nvml(Function* const& pointer) {
  if (__builtin_expect(pointer != nullptr, true)) return true;
  return load_real_nvml() && pointer != nullptr;
}

}  // namespace divvy::shim

extern "C" {
#define DIVVY_NVML_EXTRA(symbol, arguments) nvmlReturn_t symbol arguments;
#include "shim/nvml_extra_functions.inc"
#define DIVVY_NVML_SET(symbol) \
  nvmlReturn_t symbol(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
#include "shim/nvml_set_functions.inc"
}

// First line of a hook of NVML, like DIVVY_NEED.
#define DIVVY_NEED_NVML(symbol) \
  if (!::divvy::shim::have_nvml(::divvy::shim::g_nvml.symbol)) return NVML_ERROR_FUNCTION_NOT_FOUND
