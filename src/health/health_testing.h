// Samples for the tests of health.
#pragma once

#include "health/gpu_sample.h"
#include "model/testing.h"

namespace divvy::health {

inline GpuSample healthy_sample(std::uint32_t gpu = 0) {
  GpuSample sample{.index = model::GpuIndex(gpu), .uuid = model::test_uuid(gpu), .taken = {}};
  sample.temperature_c = 40;
  sample.slowdown_temperature_c = 90;
  sample.uncorrected_errors = 0;
  sample.remap_pending = false;
  sample.remap_failed = false;
  return sample;
}

}  // namespace divvy::health
