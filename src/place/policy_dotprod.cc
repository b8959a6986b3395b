// dotprod: small where there is little, large where there is little of the other.
//
// Assumptions: CPUs and GPUs are two dimensions of one vector, and what is asked should not lie in
//   the direction of what is free. RAM is looked at only to see whether it fits.
// Algorithm: the product of the two vectors, both measured against the largest node; the smaller it
//   is, the better. The part goes to the GPU that it fills best.
// Factors: none; whole numbers from 0 to 100, as published.
#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

class DotProdPolicy final : public Policy {
 public:
  void prepare(const Cluster& cluster, const Workload&) override {
    largest_ = largest_node(cluster);
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    const double cpu = static_cast<double>(node.state.cpu_free) / largest_.cpu_milli *
                       (static_cast<double>(ask.cpu_milli) / largest_.cpu_milli);
    const double gpu =
        node.state.idle / largest_.share * (outcome(node, ask, choice).taken / largest_.share);
    return static_cast<float>(static_cast<int>(100 * (1 - (cpu + gpu) / 2)));
  }

 private:
  LargestNode largest_;
};

}  // namespace

std::unique_ptr<Policy> make_dotprod() { return std::make_unique<DotProdPolicy>(); }

}  // namespace divvy::place
