// For whole tests of the preloaded library: the test starts itself again as a tenant's process, on
// simulated GPUs, with a fake daemon beside it.
//
//   TEST(TenantMemory, CountsArrays) {
//     if (!inside_tenant()) return run_as_tenant({.limits = {1 << 30}});
//     const Cuda cu;   // the driver as the program sees it, through the shim
//     ...
//   }
//
// The machine has two GPUs and lives as long as the test program.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "abi/cuda.h"
#include "abi/nvml.h"
#include "shim/fake_daemon.h"

namespace divvy::shim {

constexpr uint64_t kMiB = uint64_t{1} << 20U;
constexpr uint64_t kGiB = uint64_t{1} << 30U;

// Whether this process is the one that runs under the shim.
bool inside_tenant();

struct TenantSetup {
  std::vector<uint64_t> limits =
      {};  // bytes of each slice; slice i is on GPU i unless `gpus` says so
  std::vector<int> gpus = {};
  bool measured = true;  // the daemon can tell what the driver holds for a process
  std::map<std::string, std::string> environment = {};
  // Called by the outer process before the tenant's starts, while it runs, and when it has ended.
  std::function<void(FakeDaemon&)> before = {};
  std::function<void(FakeDaemon&)> during = {};
  std::function<void(FakeDaemon&)> after = {};
  int processes = 1;  // started together; each finds its number in DIVVY_TEST_PROCESS
};
void run_as_tenant(const TenantSetup& setup);

// For the outer process: what the driver holds for a process on a GPU of the machine. False when it
// has no context there.
bool held_by(pid_t pid, int gpu, uint64_t* bytes);

// The driver's functions, found as a program finds them.
struct Cuda {
  Cuda();
#define DIVVY_CU(symbol, base, since, kind, arguments) CUresult(*symbol) arguments;
#include "abi/cuda_functions.inc"
  void* library;

  // cuInit, and the primary context of a device made current.
  CUcontext begin(int device = 0) const;
  [[nodiscard]] uint64_t free_bytes() const;
  [[nodiscard]] uint64_t total_bytes() const;
};

struct Nvml {
  Nvml();
#define DIVVY_NVML(symbol, arguments) nvmlReturn_t(*symbol) arguments;
#include "abi/nvml_functions.inc"
  // What NVML says the driver holds for this process on the tenant's GPU `index`.
  [[nodiscard]] uint64_t own_bytes(unsigned index = 0) const;
};

}  // namespace divvy::shim
