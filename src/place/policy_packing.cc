// packing: used GPUs before free ones, used nodes before idle ones.
//
// Assumptions: a GPU that is in use already costs nothing more, and an idle node is worth most.
// Algorithm: three bands. From 50 to 100: only GPUs that are in use already, the fuller the better.
//   From 33 to 50: free GPUs of a node that is in use, the fewer the better. Up to 33: an idle
//   node, the fewer GPUs it has the better. To members without GPU all nodes are the same. The part
//   goes to the GPU that it fills best.
// Factors: the borders of the bands; whole numbers from 0 to 100, as published.
#include <algorithm>
#include <bit>

#include "place/policies.h"

namespace divvy::place {
namespace {

class PackingPolicy final : public Policy {
 public:
  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    if (!ask.wants_gpu()) return 0;
    return static_cast<float>(band_score(node, choice));
  }

 private:
  static int band_score(const NodeView& node, const Choice& choice) {
    const int free_gpus = std::popcount(node.state.whole);
    if (free_gpus == node.shape.devices) return std::max(33 - free_gpus, free_gpus);

    int broken = std::popcount(choice.whole);
    int percent_free = 0;
    if (choice.part_device >= 0) {
      const int free = node.state.free[static_cast<std::uint8_t>(choice.part_device)];
      if (free == int{Share::kWhole}) ++broken;
      percent_free = free / 10;
    }
    if (broken > 0) return std::max(50 - broken, 33);
    return std::max(100 - percent_free / 10, 50);
  }
};

}  // namespace

std::unique_ptr<Policy> make_packing() { return std::make_unique<PackingPolicy>(); }

}  // namespace divvy::place
