// spread: the same load everywhere.
//
// Assumptions: neighbours cost each other more than what an unused node costs: CPUs, memory
//   bandwidth, power and heat.
// Algorithm: the node that is the least full afterwards; a node is as full as the fuller one of its
//   CPUs and GPUs. The part goes to the GPU on which the most is free.
// Factors: none; 100 is an empty node, 0 a full one.
#include <bit>

#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class SpreadPolicy final : public Policy {
 public:
  [[nodiscard]] Choice choose(const NodeView& node, const Ask& ask) override {
    Choice choice = tightest(node, ask);
    if (choice.part_device < 0) return choice;
    unsigned room = part_devices(node, ask) & devices_to_use(node, ask) & ~unsigned{choice.whole};
    const auto idle = static_cast<std::uint16_t>(room & node.state.whole);
    if (idle != 0) {
      choice.part_device = static_cast<std::int16_t>(least_breaking(node, idle));
      return choice;
    }
    int most = -1;
    for (; room != 0; room &= room - 1) {
      const int device = std::countr_zero(room);
      const int free = node.state.free[static_cast<std::size_t>(device)];
      if (free <= most) continue;
      most = free;
      choice.part_device = static_cast<std::int16_t>(device);
    }
    return choice;
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    return static_cast<float>(100 * (1 - fullness(node, outcome(node, ask, choice))));
  }
};

}  // namespace

std::unique_ptr<Policy> make_spread() { return std::make_unique<SpreadPolicy>(); }

}  // namespace divvy::place
