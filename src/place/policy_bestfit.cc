// bestfit: where the least is left over.
//
// Assumptions: CPUs and GPUs count the same, each measured against the largest node.
// Algorithm: the less is free afterwards, the better; then the candidates are stretched so that the
//   worst has 0 and the best 100. The part goes to the GPU that it fills best.
// Factors: one half for CPUs, one half for GPUs; whole numbers from 0 to 100, as published.
#include <algorithm>

#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class BestFitPolicy final : public Policy {
 public:
  void prepare(const Cluster& cluster, const Workload&) override {
    largest_ = largest_node(cluster);
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    const Outcome after = outcome(node, ask, choice);
    const double cpu = static_cast<double>(after.cpu_free) / largest_.cpu_milli;
    const double gpu = after.idle / largest_.share;
    return static_cast<float>(static_cast<int>(100 * (1 - (0.5 * cpu + 0.5 * gpu))));
  }

  [[nodiscard]] bool compares() const override { return true; }
  void compare(const Ask&, std::span<Candidate> candidates) override {
    if (candidates.empty()) return;
    const auto [lowest, highest] = std::ranges::minmax(candidates, {}, &Candidate::score);
    const auto least = static_cast<int>(lowest.score);
    const auto range = static_cast<int>(highest.score) - least;
    for (Candidate& candidate : candidates) {
      const int above = static_cast<int>(candidate.score) - least;
      const int stretched = range == 0 ? 0 : above * 100 / range;
      candidate.score = static_cast<float>(stretched);
    }
  }

 private:
  LargestNode largest_;
};

}  // namespace

std::unique_ptr<Policy> make_bestfit() { return std::make_unique<BestFitPolicy>(); }

}  // namespace divvy::place
