// `divvy events --jobs`: what happened to jobs. Runs on the main thread.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/output.h"
#include "cli/session.h"

namespace divvy::cli {

struct JobEventsOptions {
  bool follow = false;
  std::uint64_t after = 0;
  std::optional<std::uint64_t> job;
  OutputFormat format = OutputFormat::kTable;
};

[[nodiscard]] int show_job_events(const Session& session, const Daemon& daemon,
                                  const JobEventsOptions& options);

}  // namespace divvy::cli
