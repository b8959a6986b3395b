// Waiting for a job: `divvy wait`, and what `divvy submit --wait` does. Runs on the main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/session.h"

namespace divvy::cli {

enum class WaitFor { kSucceeded, kEnded, kRunning };
[[nodiscard]] Result<WaitFor> parse_wait_for(const std::string& text);

struct WaitOptions {
  WaitFor what = WaitFor::kEnded;
  std::optional<std::chrono::seconds> timeout{};
  bool quiet = false;
  bool only_trouble = false;  // Says nothing of one that has succeeded
  bool reached = false;       // The daemon has answered before
};

// 0 when it came so, 124 when the time was over, 1 when it can never be so any more. With kEnded
// the job may have ended in any way.
[[nodiscard]] int wait_for_job(const Session& session, std::uint64_t job,
                               const WaitOptions& options);

}  // namespace divvy::cli
