// Entry points of the real driver that are not simulated: present, so that a program that links
// to them loads, and honest when called.
#include "abi/cuda_results.h"

#define DIVVY_CU_UNSIMULATED(symbol)                                   \
  extern "C" __attribute__((visibility("default"))) CUresult symbol(); \
  extern "C" CUresult symbol() { return CUDA_ERROR_NOT_SUPPORTED; }
#include "abi/cuda_unsimulated.inc"
