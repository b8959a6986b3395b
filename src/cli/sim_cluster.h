// The command `divvy sim cluster`: plays a scenario and says whether everything came as expected.
// Runs on the main thread.
#pragma once

#include <string>

#include "base/result.h"

namespace divvy::cli {

struct SimScreen;

struct SimClusterOptions {
  std::string scenario;
  std::string policy;  // empty: the scenario's own
  std::string format = "table";
};

// The error is a wrong option; trouble with the file is said on the screen, and the exit status
// tells.
[[nodiscard]] Result<int> sim_cluster(const SimClusterOptions& options, const SimScreen& screen);

}  // namespace divvy::cli
