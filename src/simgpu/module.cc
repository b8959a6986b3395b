#include "simgpu/module.h"

#include <string.h>

#include <algorithm>

#include "simgpu/driver.h"
#include "simgpu/wide.h"

namespace divvy::simgpu {
namespace {

// The effects that a kernel's annotation asks for, as an action; null when it has none.
std::shared_ptr<Action> effects(const KernelWork& work) {
  const PtxKernel& kernel = work.function->kernel;
  if (kernel.cost.fill32.empty() && kernel.cost.copy.empty()) return nullptr;
  const PtxLaunch launch{work.params.data(), 0, 0};
  const auto value = [&](const PtxExpression& e) { return evaluate(e, kernel, launch); };
  // A wild pointer is the program's fault, but must not take the process down here. It is looked at
  // now and not when the kernel runs: by then the program may have freed it in stream order.
  MemoryMap& map = Driver::get().map();
  if (!kernel.cost.fill32.empty()) {
    const auto& f = kernel.cost.fill32;
    const uint64_t address = value(f[0]);
    const uint64_t count = value(f[1]);
    const auto with = static_cast<uint32_t>(value(f[2]));
    if (map.find_range(address, count * 4) == nullptr) return nullptr;
    return std::make_shared<Action>(
        [address, count, with] { std::fill_n(reinterpret_cast<uint32_t*>(address), count, with); });
  }
  const auto& c = kernel.cost.copy;
  const uint64_t to = value(c[0]);
  const uint64_t from = value(c[1]);
  const uint64_t bytes = value(c[2]);
  if (map.find_range(to, bytes) == nullptr || map.find_range(from, bytes) == nullptr) {
    return nullptr;
  }
  return std::make_shared<Action>([to, from, bytes] {
    memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}

}  // namespace

CUresult check_launch(const Function& function, const KernelWork& work, const GpuSpec& spec) {
  const uint64_t threads = uint64_t{work.block[0]} * work.block[1] * work.block[2];
  if (threads == 0 || threads > 1024 || work.block[0] > 1024 || work.block[1] > 1024 ||
      work.block[2] > 64) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (work.grid[0] == 0 || work.grid[1] == 0 || work.grid[2] == 0 || work.grid[0] > 2147483647u ||
      work.grid[1] > 65535 || work.grid[2] > 65535) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (work.shared_bytes + function.kernel.static_shared >
      static_cast<uint32_t>(function.max_dynamic_shared)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (work.cooperative) {
    // All blocks of a cooperative launch must be on the GPU at once.
    const uint64_t blocks = uint64_t{work.grid[0]} * work.grid[1] * work.grid[2];
    const uint64_t per_sm = std::min<uint64_t>(2048 / ((threads + 31) / 32 * 32), 32);
    if (blocks > per_sm * spec.sm_count) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return CUDA_SUCCESS;
}

CUresult collect_params(KernelWork& work, void** kernel_params, void** extra) {
  const PtxKernel& kernel = work.function->kernel;
  if (kernel_params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  work.params.assign(kernel.param_bytes, 0);
  if (kernel_params != nullptr) {
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      if (kernel_params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      memcpy(work.params.data() + kernel.params[i].offset, kernel_params[i], kernel.params[i].size);
    }
    return CUDA_SUCCESS;
  }
  if (extra != nullptr) {
    const void* buffer = nullptr;
    size_t size = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
      if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        buffer = extra[i + 1];
      } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        size = *static_cast<size_t*>(extra[i + 1]);
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    if (buffer != nullptr) memcpy(work.params.data(), buffer, std::min(size, work.params.size()));
    return CUDA_SUCCESS;
  }
  return kernel.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Op kernel_op(const KernelWork& work, const GpuSpec& spec, uint64_t default_ns) {
  const PtxKernel& kernel = work.function->kernel;
  const uint64_t blocks = uint64_t{work.grid[0]} * work.grid[1] * work.grid[2];
  const uint64_t threads = blocks * work.block[0] * work.block[1] * work.block[2];
  Op op;
  op.kind = OpKind::kKernel;
  const PtxLaunch launch{work.params.data(), threads, blocks};
  op.cost_ns = kernel.cost.ns ? evaluate(*kernel.cost.ns, kernel, launch) : default_ns;
  if (kernel.cost.bytes) {
    op.cost_ns += transfer_ns(evaluate(*kernel.cost.bytes, kernel, launch), spec.bandwidth_bytes_s);
  }
  // How much of the GPU the launch fills decides what may run beside it.
  const uint64_t capacity = uint64_t{spec.sm_count} * 2048;
  op.width = static_cast<uint16_t>(
      std::clamp<uint64_t>(threads >= capacity ? 1000 : threads * 1000 / capacity, 1, 1000));
  // A block needs an SM for itself to be counted apart: few large blocks fill few SMs.
  op.width = static_cast<uint16_t>(std::max<uint64_t>(
      op.width,
      std::min<uint64_t>(1000, blocks * 1000 / std::max<uint64_t>(spec.sm_count * 32ull, 1))));
  op.action = effects(work);
  return op;
}

}  // namespace divvy::simgpu
