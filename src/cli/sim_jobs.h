// The command `divvy sim jobs`: how long do jobs take under each order of the queue? Runs on the
// main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

struct SimScreen;

struct SimJobsOptions {
  std::string trace;
  std::vector<std::string> policies;
  std::uint32_t nodes = 8;
  std::uint32_t gpus_per_node = 8;
  std::string restart_cost = "protocol";
  std::string share = "none";
  std::string format = "table";
};

// The error is a wrong option; trouble with a file is said on the screen, and the exit status
// tells.
[[nodiscard]] Result<int> sim_jobs(const SimJobsOptions& options, const SimScreen& screen);

}  // namespace divvy::cli
