#include "place/node_trial.h"

#include <gtest/gtest.h>

#include "place/plans_testing.h"
#include "place/shortfall.h"

namespace divvy::place {
namespace {

using namespace testing;

void expect_same(const NodeState& trial, const NodeState& state) {
  EXPECT_EQ(trial.cpu_free, state.cpu_free);
  EXPECT_EQ(trial.ram_free, state.ram_free);
  EXPECT_EQ(trial.free, state.free);
  EXPECT_EQ(trial.share_free, state.share_free);
  EXPECT_EQ(trial.memory_free, state.memory_free);
  EXPECT_EQ(trial.usable, state.usable);
  EXPECT_EQ(trial.whole, state.whole);
  EXPECT_EQ(trial.most_free, state.most_free);
  EXPECT_EQ(trial.idle, state.idle);
  EXPECT_EQ(trial.members_left, state.members_left);
  EXPECT_EQ(trial.whole_count, state.whole_count);
  EXPECT_EQ(trial.open, state.open);
}

TEST(NodeTrial, IsWhatTheClusterWouldBe) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 1 + lots.below(8), gib(10 + lots.below(90)))});
    NodeTrial trial(fleet.cluster, NodeId(0));
    std::vector<HoldingId> holdings;
    for (int step = 0; step < 60; ++step) {
      if (!holdings.empty() && lots.below(3) == 0) {
        const std::size_t which = lots.below(static_cast<std::uint32_t>(holdings.size()));
        trial.remove(fleet.cluster.holding(holdings[which]).spot);
        fleet.cluster.release(holdings[which]);
        holdings.erase(holdings.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        Request request = lots.below(2) == 0 ? gpus(1) : gpus(0, 1 + lots.below(999));
        if (lots.below(3) == 0) request.member.memory = mib(1 + lots.below(20'000));
        request.member.cpu_milli = lots.below(8'000);
        request.member.ram = mib(lots.below(9'000));
        const Ask ask = fleet.cluster.ask_of(request);
        EXPECT_EQ(trial.fits(ask), fits(view(fleet.cluster, NodeId(0)), ask));
        const auto spot = trial.spot(ask);
        if (!spot) continue;
        trial.add(*spot);
        holdings.push_back(fleet.cluster.take(*spot));
      }
      expect_same(trial.state(), fleet.cluster.state(NodeId(0)));
    }
  }
}

TEST(NodeTrial, SeesOnlyTheDevicesThatItMay) {
  Fleet fleet({node("a", 4)});
  const NodeTrial trial(fleet.cluster, NodeId(0), 0b0110);
  EXPECT_EQ(trial.count(fleet.cluster.ask_of(gpus(1)), 10), 2U);
  EXPECT_FALSE(trial.fits(fleet.cluster.ask_of(gpus(3))));
  EXPECT_EQ(trial.spot(fleet.cluster.ask_of(gpus(2)))->whole, 0b0110);
}

TEST(NodeTrial, AtItsBestIsAnEmptyHealthyOpenNode) {
  Fleet fleet({node("a", 4)});
  const NodeState fresh = fleet.cluster.state(NodeId(0));
  fleet.take(0, 0b0011);
  fleet.take_part(0, 2, 300);
  fleet.cluster.set_unusable(NodeId(0), 3, "ECC errors");
  fleet.cluster.cordon(NodeId(0), "fan broken");
  expect_same(NodeTrial::at_its_best(fleet.cluster, NodeId(0)).state(), fresh);
}

TEST(NodeTrial, TakesNoMoreMembersThanTheNodeAllows) {
  NodeSpec spec = node("a", 4);
  spec.max_members = 2;
  Fleet fleet({spec});
  const NodeTrial trial(fleet.cluster, NodeId(0));
  EXPECT_EQ(trial.count(fleet.cluster.ask_of(gpus(1)), 10), 2U);
  fleet.take(0, 1);
  fleet.take(0, 2);
  EXPECT_EQ(NodeTrial(fleet.cluster, NodeId(0)).why_not(fleet.cluster.ask_of(gpus(1))),
            Refusal::kMembers);
}

// --- What is missing ---

TEST(Shortfall, NothingIsMissingWhereItFits) {
  Fleet fleet({node("a", 2)});
  const auto missing =
      shortfall(NodeTrial(fleet.cluster, NodeId(0)), fleet.cluster.ask_of(gpus(2)));
  ASSERT_TRUE(missing.has_value());
  EXPECT_TRUE(missing->nothing());
  EXPECT_EQ(missing->cost, 0U);
}

TEST(Shortfall, PicksTheGpuOnWhichLeastIsHeld) {
  Fleet fleet({node("a", 3)});
  fleet.take_part(0, 0, 600);
  fleet.take_part(0, 1, 100);
  fleet.take_part(0, 2, 300);
  const auto missing =
      shortfall(NodeTrial(fleet.cluster, NodeId(0)), fleet.cluster.ask_of(gpus(1)));
  ASSERT_TRUE(missing.has_value());
  ASSERT_EQ(missing->devices.size(), 1U);
  EXPECT_EQ(missing->devices[0].device, 1);
  EXPECT_TRUE(missing->devices[0].whole);
}

TEST(Shortfall, StaysWithinOneIslandWhereThatIsRequired) {
  Fleet fleet({node("a", 8)});
  fleet.take(0, 0b0011'0001);  // one of the first island, two of the second
  Request request = gpus(4);
  request.gpus = {Closeness::kNvlink, true};
  const auto missing =
      shortfall(NodeTrial(fleet.cluster, NodeId(0)), fleet.cluster.ask_of(request));
  ASSERT_TRUE(missing.has_value());
  ASSERT_EQ(missing->devices.size(), 1U);
  EXPECT_EQ(missing->devices[0].device, 0);
}

TEST(Shortfall, IsNoHelpOnANodeThatIsTooSmall) {
  Fleet fleet({node("a", 2)});
  EXPECT_FALSE(shortfall(NodeTrial(fleet.cluster, NodeId(0)), fleet.cluster.ask_of(gpus(3))));
  fleet.cluster.set_unusable(NodeId(0), 0, "gone");
  EXPECT_FALSE(shortfall(NodeTrial(fleet.cluster, NodeId(0)), fleet.cluster.ask_of(gpus(2))));
}

// Freeing what is missing makes it fit, on the copy and on the cluster; freeing a little less of it
// does not.
TEST(Shortfall, IsEnoughAndNotTooMuch) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 1 + lots.below(4))});
    fill(fleet, lots, 8);
    Request request = lots.below(2) == 0 ? gpus(1 + lots.below(3), lots.below(2) * 500)
                                         : gpus(0, 100 + 100 * lots.below(9));
    if (lots.below(3) == 0) request.member.memory = gib(1 + lots.below(79));
    request.member.cpu_milli = lots.below(40'000);
    const Ask ask = fleet.cluster.ask_of(request);
    NodeTrial trial(fleet.cluster, NodeId(0));
    const auto missing = shortfall(trial, ask);
    EXPECT_EQ(missing.has_value(), NodeTrial::at_its_best(fleet.cluster, NodeId(0)).fits(ask));
    if (!missing) continue;
    EXPECT_EQ(missing->nothing(), trial.fits(ask));
    const NodeTrial before = trial;
    free_up(trial, *missing);
    EXPECT_TRUE(trial.fits(ask)) << seed;
    const std::string picture = fleet.picture();
    const Cluster::Mark mark = fleet.cluster.mark();
    free_up(fleet.cluster, *missing);
    EXPECT_TRUE(fits(view(fleet.cluster, NodeId(0)), ask)) << seed;
    fleet.cluster.rollback(mark);
    EXPECT_EQ(fleet.picture(), picture);
    for (std::size_t i = 0; i < missing->devices.size(); ++i) {
      Shortfall less = *missing;
      less.devices.erase(less.devices.begin() + static_cast<std::ptrdiff_t>(i));
      NodeTrial not_enough = before;
      free_up(not_enough, less);
      EXPECT_FALSE(not_enough.fits(ask)) << seed;
    }
  }
}

TEST(FindRoom, CountsWhatFitsAndSaysWhereTheRestCouldBe) {
  Fleet fleet({node("a", 4), node("b", 4)});
  fleet.take(0, 0b0001);
  fleet.take_part(1, 0, 200);
  const auto room = find_room(fleet.cluster, gang(7, 1), 7);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->fit_now, 6U);
  ASSERT_EQ(room->missing.size(), 1U);
  EXPECT_EQ(room->missing[0].node, NodeId(1));  // 0.2 is less than a whole GPU
  EXPECT_EQ(room->spots.size(), 7U);
  EXPECT_FALSE(find_room(fleet.cluster, gang(9, 1), 9).has_value());
}

TEST(FindRoom, StaysInOneRackWhereThatIsRequired) {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(node(fmt::format("n{}", i), 2));
    nodes.back().rack = i < 2 ? "left" : "right";
  }
  Fleet fleet(nodes);
  fleet.take(0, 0b11);
  fleet.take(2, 0b01);
  Request request = gang(4, 1);
  request.members_near = {Closeness::kRack, true};
  const auto room = find_room(fleet.cluster, request, 4);
  ASSERT_TRUE(room.has_value());
  ASSERT_EQ(room->missing.size(), 1U);
  EXPECT_EQ(room->missing[0].node, NodeId(2));
  EXPECT_EQ(members_that_fit(fleet.cluster, request, 4), 3U);
  EXPECT_EQ(members_at_best(fleet.cluster, request, 8), 4U);
}

TEST(FindRoom, LeavesWhatIsKept) {
  Fleet fleet({node("a", 2), node("b", 2)});
  fleet.take(0, 0b11);
  fleet.take(1, 0b11);
  const Spot kept{.node = NodeId(0), .whole = 0b11};
  const auto room = find_room(fleet.cluster, gpus(2), 1, std::vector{kept});
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->spots[0].node, NodeId(1));
}

}  // namespace
}  // namespace divvy::place
