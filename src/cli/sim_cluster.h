// The command `divvy sim cluster`: plays a scenario and says whether everything came as expected.
// Runs on the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

struct SimScreen;

struct SimClusterOptions {
  std::string scenario;
  std::string policy;  // empty: the scenario's own
  std::string format = "table";
  // Instead of a scenario (cli/kube_forecast.h).
  bool from_kube = false;
  std::uint32_t add_nodes = 0;
  std::uint32_t gpus = 0;  // of each of them; 0: as many as the node has that they are like
  std::string like = {};   // empty: the first
  std::vector<std::string> without = {};
  bool no_preemption = false;
};

// The error is a wrong option; trouble with the file is said on the screen, and the exit status
// tells.
[[nodiscard]] Result<int> sim_cluster(const SimClusterOptions& options, const SimScreen& screen);

}  // namespace divvy::cli
