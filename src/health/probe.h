// The active probe: works a GPU for a moment as a program would, to see whether it can be trusted
// again. Memory is written and read back, and a kernel fills some.
#pragma once

#include <string>

#include "base/result.h"
#include "model/gpu_uuid.h"

namespace divvy::health {

struct ProbePlan {
  model::GpuUuid gpu;
  std::string library = "libcuda.so.1";
};

// Called by main of a process of its own (`divvyd --probe UUID`) with CUDA_VISIBLE_DEVICES set to
// the GPU, and by nobody else: the driver may never come back. The error says what failed.
[[nodiscard]] Status run_probe(const ProbePlan& plan);

}  // namespace divvy::health
