#include "shim/nvml_real.h"

#include "shim/load_once.h"

namespace divvy::shim {

constinit RealNvml g_nvml = {};

namespace {

LoadOnce g_load;

void fill(void* library) {
  const LibcDl& dl = libc_dl();
#define DIVVY_NVML(symbol, arguments) \
  g_nvml.symbol = reinterpret_cast<decltype(g_nvml.symbol)>(dl.sym(library, #symbol));
#include "abi/nvml_functions.inc"
#define DIVVY_NVML_EXTRA(symbol, arguments) \
  g_nvml.symbol = reinterpret_cast<decltype(g_nvml.symbol)>(dl.sym(library, #symbol));
#include "shim/nvml_extra_functions.inc"
#define DIVVY_NVML_SET(symbol) g_nvml.symbol = reinterpret_cast<NvmlSet>(dl.sym(library, #symbol));
#include "shim/nvml_set_functions.inc"
}

}  // namespace

bool load_real_nvml() { return g_load.load("libnvidia-ml.so.1", fill); }

}  // namespace divvy::shim
