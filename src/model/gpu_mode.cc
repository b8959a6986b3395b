#include "model/gpu_mode.h"

#include "base/text.h"

namespace divvy::model {

std::string_view to_string(GpuMode mode) { return mode == GpuMode::kMps ? "mps" : "timeslice"; }

Result<GpuMode> parse_gpu_mode(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "timeslice") return GpuMode::kTimeslice;
  if (word == "mps") return GpuMode::kMps;
  return err(ErrorCode::kInvalidArgument, "there is no mode \"{}\"; write timeslice or mps",
             escape_for_terminal(text.substr(0, 40)));
}

}  // namespace divvy::model
