// Does a member fit on a node, on which of its GPUs, and if not, why? Pure functions of the node's
// state and the ask; what the request says about nodes by name is in eligible.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "place/ask.h"
#include "place/cluster.h"

namespace divvy::place {

// A node under consideration.
struct NodeView {
  const NodeState& state;
  const NodeShape& shape;
  NodeId id;
  // Where a policy may keep one number about this state; not a number as long as it has not. Null
  // where nothing can be kept.
  float* note = nullptr;
};
[[nodiscard]] inline NodeView view(const Cluster& cluster, NodeId node) {
  return {cluster.state(node), cluster.shape(node), node, nullptr};
}

// Which GPUs of a node a member gets.
struct Choice {
  std::uint16_t whole = 0;        // a bit for each
  std::int16_t part_device = -1;  // of which it gets a part
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Why a member does not fit on a node, the first thing that stands in the way.
enum class Refusal : std::uint8_t {
  kNone,
  kClosed,    // cordoned or gone
  kNotNamed,  // the request names other nodes or devices
  kExcluded,  // the request or the tenant's history excludes it
  kLabels,    // lacks a label
  kTaint,     // has a taint that is not tolerated
  kModel,     // no GPU of a wanted model
  kCpu,
  kRam,
  kMembers,      // as many members as it takes
  kUnhealthy,    // enough GPUs, but not enough healthy ones
  kTooFewGpus,   // the node never has so many
  kGpuTooSmall,  // no GPU with that much memory
  kWholeGpus,    // too few GPUs are wholly free
  kShare,        // no GPU has that share left
  kGpuMemory,    // no GPU has that much memory left
  kNearness,     // enough GPUs, but not close together
  kSpread,       // as many members of this request as may be together
};
[[nodiscard]] std::string_view to_string(Refusal refusal);

// What the part takes of a GPU with so much memory.
struct PartNeed {
  std::uint32_t share = 0;   // thousandths
  std::uint64_t memory = 0;  // bytes
};
[[nodiscard]] PartNeed part_need(const Ask& ask, std::uint64_t device_memory);
// The larger one of both, in thousandths of that GPU: comparable with NodeState::free.
[[nodiscard]] std::uint32_t part_size(const Ask& ask, std::uint64_t device_memory);

// The GPUs on which the part, or a whole GPU, of the ask could go as things are; a bit for each.
[[nodiscard]] std::uint16_t part_devices(const NodeView& node, const Ask& ask);
[[nodiscard]] std::uint16_t whole_devices(const NodeView& node, const Ask& ask);

// The GPUs among which the member should be put together: all of them, or those of one island,
// switch or NUMA node, the one with the least to spare. Nothing if it fits nowhere.
[[nodiscard]] std::uint16_t devices_to_use(const NodeView& node, const Ask& ask);

[[nodiscard]] bool fits(const NodeView& node, const Ask& ask);
[[nodiscard]] Refusal why_not(const NodeView& node, const Ask& ask);

// Of these wholly free GPUs the one that breaks the least connected set.
[[nodiscard]] int least_breaking(const NodeView& node, std::uint16_t whole);

// How near the GPUs of the choice are to each other, less what they break of connected sets: from
// -0.2 to 0.8, and 0 where no link is known. Decides between what is otherwise equal.
[[nodiscard]] float nearness(const NodeView& node, const Choice& choice);

// The usual choice: the whole GPUs that are closest together, or else those with the lowest
// numbers; the part where the least is left over afterwards. Only where it fits.
[[nodiscard]] Choice tightest(const NodeView& node, const Ask& ask);

// What the member takes with this choice.
[[nodiscard]] Spot spot_of(const NodeView& node, const Ask& ask, const Choice& choice);

}  // namespace divvy::place
