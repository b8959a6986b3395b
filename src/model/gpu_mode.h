// How the tenants of one GPU share its time: by turns, or side by side through NVIDIA's MPS. A GPU
// is in one mode at a time.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::model {

enum class GpuMode { kTimeslice, kMps };
[[nodiscard]] std::string_view to_string(GpuMode mode);
[[nodiscard]] Result<GpuMode> parse_gpu_mode(std::string_view text);

}  // namespace divvy::model
