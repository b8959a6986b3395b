// The output of a job: `divvy logs`, and what `divvy submit --follow` shows. Runs on the main
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/session.h"

namespace divvy::cli {

struct LogOptions {
  bool follow = false;
  bool reached = false;  // The daemon has answered before: it will be back
  bool timestamps = false;
  std::optional<std::int64_t> since_milliseconds{};
  std::optional<std::uint64_t> tail{};
  std::optional<std::uint32_t> rank{};
  std::optional<std::uint32_t> attempt{};
  std::optional<std::chrono::steady_clock::time_point> until{};  // With follow
};

// With follow: until the job has ended, over restarts of the job and of the daemon, or until the
// time is over: kExitWaitedTooLong, of which nothing is said.
[[nodiscard]] int show_logs(const Session& session, std::uint64_t job, const LogOptions& options);

}  // namespace divvy::cli
