#include "shim/real.h"

#include "shim/load_once.h"

namespace divvy::shim {

constinit RealCuda g_cuda = {};

namespace {

LoadOnce g_load;

void fill(void* library) {
  const LibcDl& dl = libc_dl();
#define DIVVY_CU(symbol, base, since, kind, arguments) \
  g_cuda.symbol = reinterpret_cast<decltype(g_cuda.symbol)>(dl.sym(library, #symbol));
#include "abi/cuda_functions.inc"
#define DIVVY_CU_EXTRA(symbol, arguments) \
  g_cuda.symbol = reinterpret_cast<decltype(g_cuda.symbol)>(dl.sym(library, #symbol));
#include "shim/extra_functions.inc"
}

}  // namespace

bool load_real_cuda() { return g_load.load("libcuda.so.1", fill); }

}  // namespace divvy::shim
