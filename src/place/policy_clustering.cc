// clustering: like to like.
//
// Assumptions: members that ask for the same number of GPUs (or all for parts) leave gaps that the
//   next one of their kind fits into.
// Algorithm: best is a node with members of this kind alone, then one that has this kind among
//   others, then one without any GPU handed out, then the rest. Members without GPU count for
//   nothing, and all nodes are the same to them. The part goes to the GPU that it fills best.
// Factors: 25 points for each of these steps; inside a step up to 25 for what is handed out,
//   measured against the largest node. Whole numbers from 0 to 100, as published.
#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

constexpr std::uint32_t kWithoutGpu = 1;  // of NodeState::kinds
constexpr int kStep = 25;

// The bit of NodeState::kinds that this ask would set.
std::uint32_t kind_of(const Ask& ask) {
  if (ask.whole == 0) return ask.wants_part() ? 2U : kWithoutGpu;
  return 1U << (ask.whole + (ask.wants_part() ? 1 : 0) + 1);
}

class ClusteringPolicy final : public Policy {
 public:
  void prepare(const Cluster& cluster, const Workload&) override {
    largest_ = largest_node(cluster);
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice&) override {
    if (!ask.wants_gpu()) return 0;
    const std::uint32_t there = node.state.kinds & ~kWithoutGpu;
    const std::uint32_t kind = kind_of(ask);
    int step = 0;
    if ((there & kind) != 0) {
      step = there == kind ? 3 : 2;
    } else if (there == 0) {
      step = 1;
    }
    const int filled =
        static_cast<int>(kStep * (largest_.share - node.state.idle) / largest_.share);
    return static_cast<float>(step * kStep + filled);
  }

 private:
  LargestNode largest_;
};

}  // namespace

std::unique_ptr<Policy> make_clustering() { return std::make_unique<ClusteringPolicy>(); }

}  // namespace divvy::place
