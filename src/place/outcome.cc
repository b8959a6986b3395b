#include "place/outcome.h"

#include <algorithm>
#include <bit>

namespace divvy::place {

Outcome outcome(const NodeView& node, const Ask& ask, const Choice& choice) {
  Outcome after{.cpu_free = node.state.cpu_free - ask.cpu_milli, .free = node.state.free};
  for (unsigned left = choice.whole; left != 0; left &= left - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(left));
    after.taken += after.free[device];
    after.free[device] = 0;
  }
  if (choice.part_device >= 0) {
    const auto device = static_cast<std::uint8_t>(choice.part_device);
    const std::uint64_t memory = node.shape.memory[device];
    const PartNeed need = part_need(ask, memory);
    // The nearest thousandth, and shifted against overflow: as the cluster itself counts.
    const int shift = std::max(0, static_cast<int>(std::bit_width(memory)) - 50);
    const std::uint64_t all = memory >> shift;
    const std::uint64_t memory_left = (node.state.memory_free[device] - need.memory) >> shift;
    const std::uint64_t left = std::min({(memory_left * Share::kWhole + all / 2) / all,
                                         std::uint64_t{node.state.share_free[device]} - need.share,
                                         std::uint64_t{after.free[device]}});
    after.taken += after.free[device] - static_cast<std::uint32_t>(left);
    after.free[device] = static_cast<std::uint16_t>(left);
  }
  after.idle = node.state.idle - after.taken;
  return after;
}

double fullness(const NodeView& node, const Outcome& outcome) {
  double full = 0;
  if (node.shape.cpu_milli > 0) {
    full = 1 - static_cast<double>(outcome.cpu_free) / static_cast<double>(node.shape.cpu_milli);
  }
  if (node.shape.devices > 0) {
    full = std::max(full, 1 - outcome.idle / (double{Share::kWhole} * node.shape.devices));
  }
  return full;
}

LargestNode largest_node(const Cluster& cluster) {
  LargestNode largest;
  for (const NodeShape& shape : cluster.shapes()) {
    largest.cpu_milli = std::max(largest.cpu_milli, static_cast<double>(shape.cpu_milli));
    largest.share = std::max(largest.share, double{Share::kWhole} * shape.devices);
  }
  return largest;
}

}  // namespace divvy::place
