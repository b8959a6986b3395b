// bundle: as few nodes in use as possible.
//
// Assumptions: a node that runs nothing can be switched off, given back, or kept for a large gang,
//   and is worth more than what neighbours cost each other.
// Algorithm: nodes that run something before those that run nothing, the fuller the better; of idle
//   nodes the one that the member fills best. A node is as full as the fuller one of its CPUs and
//   GPUs. The part goes to the GPU that it fills best.
// Factors: 50 points for a node that is in use; up to 50 for how full it is afterwards.
#include <algorithm>

#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class BundlePolicy final : public Policy {
 public:
  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    const bool in_use = node.state.members > 0;
    return static_cast<float>((in_use ? 50 : 0) + 50 * fullness(node, outcome(node, ask, choice)));
  }
};

}  // namespace

std::unique_ptr<Policy> make_bundle() { return std::make_unique<BundlePolicy>(); }

}  // namespace divvy::place
