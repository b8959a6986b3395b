// Replays pods that come and never go, and measures how much of the GPUs the policy can hand out:
// the loop and the measures of the FGD packing benchmark (USENIX ATC 2023).
//
// Each pod goes where the policy says, or nowhere if it fits nowhere, and is not tried again. How
// much has arrived, and how much of that was placed, is told in percent of all GPUs. Everything is
// deterministic: the same files, policy and seed give the same figures. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "place/ask.h"
#include "place/node_spec.h"
#include "sim/pack_trace.h"

namespace divvy::sim {

// Means over all arrivals while so much had arrived (rounded to the nearest percent), in percent.
struct PackLevel {
  double alloc = 0;       // placed, of all GPUs
  double frag = 0;        // free and of no use to typical pods, of all GPUs
  double frag_ratio = 0;  // the same of all that is free
  friend bool operator==(const PackLevel&, const PackLevel&) = default;
};

struct PackRun {
  std::string sequence;
  std::map<std::uint64_t, PackLevel> levels;  // by percent arrived
  std::uint64_t arrivals = 0;
  std::uint64_t failed = 0;  // fitted nowhere
  double alloc = 0;          // at the end
};

struct PackInput {
  std::vector<place::NodeSpec> nodes;
  std::vector<PackPod> pods;
};

struct PackOptions {
  std::string policy;  // as make_policy() takes it
  // Of equal nodes the first one wins: the seed decides about their order, and about the lots that
  // a policy draws.
  std::uint64_t seed = 1;
  // Called now and then with how many pods have arrived.
  std::function<void(std::size_t)> progress = {};
};

// Refused: an unknown policy, nodes that are no cluster.
[[nodiscard]] Result<PackRun> replay_pack(const PackInput& input, const PackSequence& sequence,
                                          const PackOptions& options);

// A pod for a cluster with these GPU models. Names have to be the same to the letter: "V100" is not
// "V100M16".
[[nodiscard]] place::Ask ask_of(const PackPod& pod, const std::vector<std::string>& models);

}  // namespace divvy::sim
