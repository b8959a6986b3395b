// Jobs as the daemon describes them (JSON in), as text for people. Pure, callable from any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/answer.h"
#include "cli/list_view.h"
#include "cli/style.h"

namespace divvy::cli {

// The columns of `divvy list`. Times count until `now`.
[[nodiscard]] ListView job_list_view(WallTime now);

// `divvy get`: where it stands; of one that waits its place, why, and when it may start.
[[nodiscard]] std::string job_summary(const Answer& job, WallTime now, const Style& style);
// `divvy describe`: also what was asked for, its history, and every attempt. `attempts` is the
// answer of /v1/jobs/{id}/attempts and may be empty.
[[nodiscard]] std::string job_description(const Answer& job, const Answer& attempts, WallTime now,
                                          const Style& style);
// `divvy explain`: the same question with all details.
[[nodiscard]] std::string job_explanation(const Answer& explanation, WallTime now,
                                          const Style& style);

[[nodiscard]] Color color_of_state(std::string_view state);
[[nodiscard]] bool is_final_state(std::string_view state);
// The exit status of a job that has ended, as a shell has it: that of the first member that failed.
[[nodiscard]] int exit_status_of(const Answer& job);

// "2026-11-15T18:30:00Z"; empty for nothing.
[[nodiscard]] std::string moment_text(const Answer& milliseconds);
// "5m12s", "3h04m", "2d07h": how long it is, roughly where it is long.
[[nodiscard]] std::string span_text(std::int64_t seconds);

}  // namespace divvy::cli
