// The processes that hold contexts on a GPU, as the several lists of NVML need them. Internal to
// libnvidia-ml.so.1; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "simgpu/nvml_call.h"

namespace divvy::simgpu {

struct RunningProcess {
  unsigned int pid;
  uint64_t used_bytes;
  uint64_t peak_bytes;
  uint64_t consumed_ns;
  uint64_t started_ns;
  uint32_t busy_permille;
};

// Frees what dead processes held, then lists the living ones.
std::vector<RunningProcess> running_processes(Device& device);

}  // namespace divvy::simgpu
