// The example of docs/guides/write-a-policy.md, compiled and tried. A test compares the guide with
// the part between the two marks.
#include <gtest/gtest.h>

#include "place/placer.h"
#include "place/testing.h"

// [guide
#include "place/policy.h"

namespace divvy::place {

// Nodes where few members run already: for programs that disturb each other.
//
// Assumptions: members disturb each other by their number, whatever they do.
// Algorithm: the fewer members a node has, the better; of equal ones the fuller node.
class QuietPolicy final : public Policy {
 public:
  float score(const NodeView& node, const Ask& /*ask*/, const Choice& /*choice*/) override {
    const auto members = static_cast<float>(node.state.members);
    const auto idle = static_cast<float>(node.state.idle);
    return -members - idle / 100'000.0F;
  }
};

}  // namespace divvy::place
// guide]

namespace divvy::place {
namespace {

TEST(QuietPolicy, PutsMembersWhereTheFewestRun) {
  Cluster cluster;
  const NodeId large = testing::add(cluster, testing::node("large", 8));
  const NodeId small = testing::add(cluster, testing::node("small", 2));
  Placer placer(cluster, std::make_unique<QuietPolicy>());
  const AskId ask = placer.intern(cluster.ask_of(testing::part(100)));
  std::vector<NodeId> nodes;
  for (int i = 0; i < 4; ++i) {
    const auto spot = placer.choose(ask);
    ASSERT_TRUE(spot);
    cluster.take(*spot);
    nodes.push_back(spot->node);
  }
  EXPECT_EQ(nodes, (std::vector<NodeId>{small, large, small, large}));
}

}  // namespace
}  // namespace divvy::place
