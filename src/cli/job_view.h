// Jobs as the daemon describes them (JSON in), as text for people. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/answer.h"
#include "cli/list_view.h"
#include "cli/style.h"

namespace divvy::cli {

// Indices of GPUs by their UUID, as people name them. A GPU that is not in it has its UUID as name.
using GpuIndices = std::map<std::string, std::uint64_t>;
// From the answer of /v1/gpus.
[[nodiscard]] GpuIndices gpu_indices(const Answer& gpus);

// The columns of `divvy list`. Times count until `now`.
[[nodiscard]] ListView job_list_view(WallTime now, const GpuIndices& gpus = {});

// `divvy get`: where it stands; of one that waits its place, why, and when it may start.
[[nodiscard]] std::string job_summary(const Answer& job, const GpuIndices& gpus, WallTime now,
                                      const Style& style);
// `divvy describe`: also what was asked for, its history, and every attempt. `attempts` is the
// answer of /v1/jobs/{id}/attempts and may be empty.
[[nodiscard]] std::string job_description(const Answer& job, const Answer& attempts,
                                          const GpuIndices& gpus, WallTime now, const Style& style);
// `divvy explain`: the same question with all details.
[[nodiscard]] std::string job_explanation(const Answer& explanation, WallTime now,
                                          const Style& style);

[[nodiscard]] Color color_of_state(std::string_view state);
[[nodiscard]] bool is_final_state(std::string_view state);
// The exit status of a job that has ended, as a shell has it: that of the first member that failed.
[[nodiscard]] int exit_status_of(const Answer& job);

// What each member asks for: "0.3", or "4 x 1" of a gang.
[[nodiscard]] std::string job_gpu_text(const Answer& job);

// "2026-11-15T18:30:00Z"; empty for nothing.
[[nodiscard]] std::string moment_text(const Answer& milliseconds);
// "5m12s", "3h04m", "2d07h": how long it is, roughly where it is long.
[[nodiscard]] std::string span_text(std::int64_t seconds);

}  // namespace divvy::cli
