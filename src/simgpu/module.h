// Modules, libraries, kernels and functions, made from PTX text or a cubin.
//
// The simulated GPU does not execute PTX. What a kernel costs, and the few effects that programs
// check, are read from comments in the PTX (ptx.h). Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "abi/cuda_types.h"
#include "simgpu/ptx.h"
#include "simgpu/stream.h"

namespace divvy::simgpu {

struct Module;

struct Function {
  Module* module = nullptr;
  PtxKernel kernel;
  int max_dynamic_shared = 48 * 1024;
  int attributes[20] = {};
};

struct Module {
  unsigned target = 0;         // the architecture it was written for: 70 for sm_70
  Context* context = nullptr;  // null while it belongs to a library that no context has used yet
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::map<std::string, uint64_t> global_sizes;
  std::map<std::string, uint64_t> globals;  // addresses, allocated when first asked for
  uint64_t charged = 0;
};

// One launch of a kernel, checked and with its parameters copied.
struct KernelWork {
  const Function* function = nullptr;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  bool cooperative = false;
  std::vector<uint8_t> params;  // laid out as in the kernel's parameter space
};

// Checks the shape of a launch as the driver does.
CUresult check_launch(const Function& function, const KernelWork& work, const GpuSpec& spec);
// Copies the parameters from `kernel_params` or the buffer in `extra`.
CUresult collect_params(KernelWork& work, void** kernel_params, void** extra);
// The operation that a launch becomes on the GPU of `spec`.
Op kernel_op(const KernelWork& work, const GpuSpec& spec, uint64_t default_ns);

// The function behind a CUfunction or CUkernel handle; null for anything else.
Function* resolve_function(CUfunction handle);

}  // namespace divvy::simgpu
