// fgd: fragmentation gradient descent (Weng et al., USENIX ATC 2023).
//
// Assumptions: the requests that come are like those in the workload; the most frequent 95 % of
//   them tell enough. RAM is looked at only to see whether it fits.
// Algorithm: the node whose fragmentation (fragmentation.h) grows least, or shrinks most, through
//   the member. A part is tried on each GPU, and the first one of the best is taken; whole GPUs are
//   those with the lowest numbers.
// Factors: the growth in GPUs through a sigmoid, as whole numbers from 0 to 100. That these are
//   coarse matters: together with an order of the nodes that never changes it makes nodes fill up
//   one after the other, which is worth a whole point of allocation.
#include <bit>
#include <cmath>

#include "place/fragmentation.h"
#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class FgdPolicy final : public Policy {
 public:
  void prepare(const Cluster&, const Workload& workload) override {
    fragmentation_ = Fragmentation(workload.typical(kTypicalPart));
  }

  [[nodiscard]] Choice choose(const NodeView& node, const Ask& ask) override {
    return offer(node, ask).choice;
  }

  [[nodiscard]] Offer offer(const NodeView& node, const Ask& ask) override {
    Offer best{tightest(node, ask), -1};
    if (best.choice.part_device < 0) {
      const float near = kNearWeight * nearness(node, best.choice);
      return {best.choice, score(node, ask, best.choice) + near};
    }

    const unsigned room =
        part_devices(node, ask) & devices_to_use(node, ask) & ~unsigned{best.choice.whole};
    Choice tried = best.choice;
    for (unsigned left = room; left != 0; left &= left - 1) {
      const int device = std::countr_zero(left);
      // GPUs that are alike get the same score, and the first one of them wins.
      if (!node.shape.links.matter() && has_twin(node, room, device)) continue;
      tried.part_device = static_cast<std::int16_t>(device);
      const float found = score(node, ask, tried) + kNearWeight * nearness(node, tried);
      if (found > best.score) best = {tried, found};
    }
    return best;
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    const double before = fragmentation_.now(node);
    const double after = fragmentation_.after(node, outcome(node, ask, choice));
    const double gained_gpus = (before - after) / Share::kWhole;
    return static_cast<float>(static_cast<int>(100 / (1 + std::exp(-gained_gpus))));
  }

 private:
  // Is one of the GPUs before this one the same in everything that counts?
  static bool has_twin(const NodeView& node, unsigned devices, int device) {
    const auto index = static_cast<std::size_t>(device);
    for (std::size_t i = 0; i < index; ++i) {
      if ((devices >> i & 1) == 0 || node.state.free[i] != node.state.free[index]) continue;
      if (node.state.share_free[i] == node.state.share_free[index] &&
          node.state.memory_free[i] == node.state.memory_free[index] &&
          node.shape.memory[i] == node.shape.memory[index] &&
          node.shape.model[i] == node.shape.model[index]) {
        return true;
      }
    }
    return false;
  }

  Fragmentation fragmentation_;
};

}  // namespace

std::unique_ptr<Policy> make_fgd() { return std::make_unique<FgdPolicy>(); }

}  // namespace divvy::place
