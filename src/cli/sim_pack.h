// The command `divvy sim pack`: how much of a cluster's GPUs can each policy hand out? Runs on the
// main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

struct SimScreen;

struct SimPackOptions {
  std::string nodes;
  std::string pods;
  std::vector<std::string> sequences;
  std::vector<std::string> policies;  // as typed: "fgd", "fgd,bestfit" or "divvy=3,spread=1"
  std::string format = "table";
  std::string levels = "all";
  std::string plot;
  std::uint64_t seed = 0;
};

// The order of the nodes of the first sequence where --seed does not say another one.
inline constexpr std::uint64_t kDefaultPackSeed = 42;

// The error is a wrong option; trouble with a file is said on the screen, and the exit status
// tells.
[[nodiscard]] Result<int> sim_pack(const SimPackOptions& options, const SimScreen& screen);

// "fgd,bestfit" are two policies, "divvy=3,spread=1" is one that weighs two. Unknown ones and none
// are refused.
[[nodiscard]] Result<std::vector<std::string>> policy_list(const std::vector<std::string>& typed);

}  // namespace divvy::cli
