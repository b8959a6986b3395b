#include "place/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "place/fit.h"
#include "place/testing.h"

namespace divvy::place {
namespace {

using testing::add;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::node;

Spot part_spot(NodeId node, int device, std::uint16_t share, Bytes memory) {
  Spot spot;
  spot.node = node;
  spot.part_device = static_cast<std::int16_t>(device);
  spot.part = share;
  spot.part_memory = memory.count();
  spot.cpu_milli = 1000;
  return spot;
}

TEST(Cluster, CountsWhatIsTakenAndGivenBack) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 2));
  const HoldingId holding = cluster.take(part_spot(a, 1, 300, gib(4)));
  EXPECT_EQ(cluster.state(a).share_free[1], 700);
  EXPECT_EQ(cluster.state(a).memory_free[1], gib(12).count());
  EXPECT_EQ(cluster.state(a).free[1], 700);
  EXPECT_EQ(cluster.state(a).whole, 0b01);
  EXPECT_EQ(cluster.state(a).idle, 1700U);
  EXPECT_EQ(cluster.state(a).cpu_free, 63'000);
  EXPECT_EQ(cluster.held_share(), 300U);
  EXPECT_EQ(cluster.state(a).kinds, 0b10U);
  cluster.release(holding);
  EXPECT_EQ(cluster.state(a).whole, 0b11);
  EXPECT_EQ(cluster.state(a).idle, 2000U);
  EXPECT_EQ(cluster.state(a).kinds, 0U);
  EXPECT_EQ(cluster.held_share(), 0U);
  EXPECT_EQ(cluster.live_holdings(), 0U);
}

TEST(Cluster, FreeShareIsTheSmallerOneOfComputeAndMemory) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 1));
  cluster.take(part_spot(a, 0, 100, gib(12)));
  EXPECT_EQ(cluster.state(a).share_free[0], 900);
  EXPECT_EQ(cluster.state(a).free[0], 250);
}

TEST(Cluster, AnUnusableGpuHasNothingFreeUntilItIsWell) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 2));
  cluster.set_unusable(a, 0, "XID 79");
  EXPECT_EQ(cluster.state(a).idle, 1000U);
  EXPECT_EQ(cluster.state(a).whole, 0b10);
  EXPECT_EQ(cluster.unusable_reason(a, 0), "XID 79");
  EXPECT_FALSE(cluster.fits(part_spot(a, 0, 100, gib(1))));
  cluster.set_unusable(a, 0, "");
  EXPECT_EQ(cluster.state(a).idle, 2000U);
}

TEST(Cluster, RollsBackToTheMark) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 2));
  const HoldingId first = cluster.take(part_spot(a, 0, 300, gib(2)), 1);
  const HoldingId second = cluster.take(part_spot(a, 0, 200, gib(2)), 2);
  const NodeState before = cluster.state(a);
  const Cluster::Mark mark = cluster.mark();
  cluster.release(first);
  const HoldingId third = cluster.take(part_spot(a, 1, 900, gib(9)), 3);
  EXPECT_EQ(third, first) << "a number that is free again is used first";
  cluster.release(second);
  cluster.rollback(mark);
  EXPECT_EQ(cluster.state(a).free, before.free);
  EXPECT_EQ(cluster.state(a).cpu_free, before.cpu_free);
  EXPECT_THAT(cluster.on(a), ElementsAre(first, second));
  EXPECT_EQ(cluster.holding(first).job, 1U);
  EXPECT_EQ(cluster.live_holdings(), 2U);
}

TEST(Cluster, RefusesTwoNodesOfOneName) {
  Cluster cluster;
  add(cluster, node("a", 1));
  const auto again = cluster.add(node("a", 1));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("there is a node a already"));
}

TEST(Cluster, ReadsModelsAsPiecesOfNames) {
  Cluster cluster;
  add(cluster, node("a", 1, "NVIDIA H200"));
  add(cluster, node("b", 1, "NVIDIA A100-SXM4-80GB"));
  add(cluster, node("c", 1, "NVIDIA A100-PCIE-40GB"));
  Request request = testing::whole(1);
  request.allowed_models = {"a100"};
  request.denied_models = {"pcie"};
  EXPECT_EQ(cluster.ask_of(request).models, 0b010U);
}

TEST(Fit, TakesAPartWhereTheLeastIsLeftOver) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 3));
  cluster.take(part_spot(a, 0, 300, gib(4)));
  cluster.take(part_spot(a, 2, 600, gib(9)));
  const Ask ask = cluster.ask_of(testing::part(400));
  EXPECT_EQ(tightest(view(cluster, a), ask), (Choice{0, 2}));
  const Ask larger = cluster.ask_of(testing::part(500));
  EXPECT_EQ(tightest(view(cluster, a), larger), (Choice{0, 0}));
}

TEST(Fit, PutsWholeGpusAndAPartOnDifferentGpus) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 3));
  Request request = testing::whole(2);
  request.member.part = Share(500);
  const Ask ask = cluster.ask_of(request);
  EXPECT_EQ(tightest(view(cluster, a), ask), (Choice{0b110, 0}));
  cluster.take(part_spot(a, 1, 600, gib(2)));
  EXPECT_FALSE(fits(view(cluster, a), ask));
  EXPECT_EQ(why_not(view(cluster, a), ask), Refusal::kWholeGpus);
}

TEST(Fit, AsksByMemoryAloneTakeAsMuchComputeAsMemory) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 1));
  Request request;
  request.member.memory = gib(4);
  const Ask ask = cluster.ask_of(request);
  const Spot spot = spot_of(view(cluster, a), ask, tightest(view(cluster, a), ask));
  EXPECT_EQ(spot.part, 250);
  EXPECT_EQ(spot.part_memory, gib(4).count());
}

TEST(Fit, KeepsTheGpusOfAMemberInOneIslandWhenItMust) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 8));  // two islands of four
  for (const int device : {0, 1, 4}) cluster.take(part_spot(a, device, 100, gib(1)));
  Request request = testing::whole(3);
  request.gpus = {Closeness::kNvlink, true};
  EXPECT_EQ(tightest(view(cluster, a), cluster.ask_of(request)), (Choice{0b11100000, -1}));
  request.member.whole_gpus = 4;
  EXPECT_EQ(why_not(view(cluster, a), cluster.ask_of(request)), Refusal::kNearness);
  request.gpus.required = false;
  EXPECT_TRUE(fits(view(cluster, a), cluster.ask_of(request)));
  request.gpus.required = true;
  request.member.whole_gpus = 2;
  EXPECT_EQ(tightest(view(cluster, a), cluster.ask_of(request)), (Choice{0b00001100, -1}))
      << "the island with the least to spare";
}

TEST(Fit, NamesTheFirstThingInTheWay) {
  Cluster cluster;
  const NodeId a = add(cluster, node("a", 2));
  const auto why = [&](const Request& request) {
    return why_not(view(cluster, a), cluster.ask_of(request));
  };
  EXPECT_EQ(why(testing::whole(3)), Refusal::kTooFewGpus);
  Request request = testing::whole(1);
  request.allowed_models = {"L4"};
  EXPECT_EQ(why(request), Refusal::kModel);
  request = testing::whole(1);
  request.member.memory = gib(80);
  EXPECT_EQ(why(request), Refusal::kGpuTooSmall);
  request = testing::whole(1);
  request.member.cpu_milli = 1'000'000;
  EXPECT_EQ(why(request), Refusal::kCpu);
  request = testing::whole(1);
  request.member.ram = tib(1);
  EXPECT_EQ(why(request), Refusal::kRam);
  cluster.take(part_spot(a, 0, 500, gib(1)));
  cluster.take(part_spot(a, 1, 100, gib(12)));
  EXPECT_EQ(why(testing::whole(1)), Refusal::kWholeGpus);
  EXPECT_EQ(why(testing::part(950)), Refusal::kShare);
  EXPECT_EQ(why(testing::part(600)), Refusal::kGpuMemory);
  EXPECT_EQ(why(testing::part(200)), Refusal::kNone);
  cluster.set_unusable(a, 0, "ECC");
  cluster.set_unusable(a, 1, "ECC");
  EXPECT_EQ(why(testing::part(200)), Refusal::kUnhealthy);
  cluster.cordon(a, "fan");
  EXPECT_EQ(why(testing::part(200)), Refusal::kClosed);
}

}  // namespace
}  // namespace divvy::place
