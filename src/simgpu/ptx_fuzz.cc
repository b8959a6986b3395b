// PTX comes from the program that is simulated: whatever it is, reading it must end and stay in
// bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "simgpu/ptx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace divvy::simgpu;
  const auto module = parse_ptx({reinterpret_cast<const char*>(data), size});
  if (!module) return 0;
  for (const PtxKernel& kernel : module->kernels) {
    for (const PtxParam& param : kernel.params) {
      if (param.offset + param.size > kernel.param_bytes) abort();
    }
    const std::vector<uint8_t> params(kernel.param_bytes, 0xff);
    const PtxLaunch launch{params.data(), UINT64_MAX, UINT64_MAX};
    if (kernel.cost.ns) evaluate(*kernel.cost.ns, kernel, launch);
    for (const auto& expression : kernel.cost.fill32) evaluate(expression, kernel, launch);
    for (const auto& expression : kernel.cost.copy) evaluate(expression, kernel, launch);
  }
  return 0;
}
