// What a node would look like with a member on it, as far as policies care. Pure functions; nothing
// is taken.
#pragma once

#include <array>
#include <cstdint>

#include "place/ask.h"
#include "place/fit.h"

namespace divvy::place {

struct Outcome {
  std::int64_t cpu_free = 0;
  std::array<std::uint16_t, kMaxDevices> free{};  // as NodeState::free
  std::uint32_t idle = 0;                         // the sum of it
  std::uint32_t taken = 0;                        // by how much that is less than before
};

// The ask fits there with this choice.
[[nodiscard]] Outcome outcome(const NodeView& node, const Ask& ask, const Choice& choice);

// How much of the node is in use then, from 0 to 1: the larger one of CPUs and GPUs.
[[nodiscard]] double fullness(const NodeView& node, const Outcome& outcome);

// The largest node of the cluster, but not smaller than the one by which the published policies
// were made: their formulas measure every node against it.
struct LargestNode {
  double cpu_milli = 128'000;
  double share = 8'000;
};
[[nodiscard]] LargestNode largest_node(const Cluster& cluster);

}  // namespace divvy::place
