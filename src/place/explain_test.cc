#include "place/explain.h"

#include <gtest/gtest.h>

#include "place/plans_testing.h"

namespace divvy::place {
namespace {

using namespace testing;

Explanation why(Fleet& fleet, const Request& request) {
  const std::string before = fleet.picture();
  Explanation explanation = explain(*fleet.placer, request);
  EXPECT_EQ(fleet.picture(), before) << "an explanation changed the cluster";
  return explanation;
}

std::string first_remedy(const Explanation& explanation) {
  return explanation.remedies.empty() ? "" : explanation.remedies.front().text;
}

bool has_remedy(const Explanation& explanation, std::string_view text) {
  return std::ranges::any_of(explanation.remedies,
                             [&](const Remedy& remedy) { return remedy.text == text; });
}

TEST(Explain, NamesTheGpuThatComesClosest) {
  Fleet fleet({node("node-a", 4)});
  for (int gpu = 0; gpu < 4; ++gpu) fleet.take_part(0, gpu, gpu == 3 ? 300 : 500);
  Spot spot{.node = NodeId(0), .part_device = 3, .part = 100, .part_memory = gib(48).count()};
  fleet.cluster.take(spot);  // gpu3: 0.6 and 8 GiB free
  Request request = gpus(0, 550);
  request.member.memory = gib(10);
  const Explanation explanation = why(fleet, request);
  EXPECT_FALSE(explanation.fits);
  ASSERT_EQ(explanation.nodes.size(), 1U);
  EXPECT_EQ(explanation.nodes[0].refusal, Refusal::kGpuMemory);
  EXPECT_EQ(explanation.nodes[0].text, "gpu3 has 8 GiB free of the 10 GiB asked");
  EXPECT_EQ(first_remedy(explanation), "2 GiB are freed on gpu3 of node-a");
  EXPECT_TRUE(has_remedy(explanation, "it asks for 8 GiB of GPU memory"));
  EXPECT_EQ(summary(explanation),
            "node-a: gpu3 has 8 GiB free of the 10 GiB asked; starts if 2 GiB are freed on gpu3 of "
            "node-a");
}

TEST(Explain, CountsWholeGpusThatAreMissing) {
  Fleet fleet({node("node-a", 4), node("node-b", 4)});
  fleet.take(0, 0b0111);
  fleet.take_part(1, 2, 100);
  const Explanation explanation = why(fleet, gpus(4));
  EXPECT_EQ(explanation.by_reason.at(Refusal::kWholeGpus), 2U);
  EXPECT_EQ(explanation.nodes[0].text, "1 GPU wholly free of the 4 asked");
  EXPECT_EQ(first_remedy(explanation), "1 more GPU becomes whole (gpu2) on node-b");
  EXPECT_EQ(explanation.remedies[1].text,
            "3 more GPUs become whole (gpu0, gpu1 and gpu2) on node-a");
  EXPECT_TRUE(has_remedy(explanation, "it asks for 3 GPUs"));
}

TEST(Explain, SaysNeverWhereNoNodeIsLargeEnough) {
  Fleet fleet({node("node-a", 8)});
  const Explanation sixteen = why(fleet, gpus(16));
  EXPECT_EQ(sixteen.never, "no node has 16 GPUs");
  EXPECT_TRUE(summary(sixteen).find("never: no node has 16 GPUs") != std::string::npos);
  Request large = gpus(1);
  large.member.memory = gib(100);
  EXPECT_EQ(why(fleet, large).never, "no node has GPUs with 100 GiB");
  Request model = gpus(1);
  model.allowed_models = {"H200"};
  const Explanation no_model = why(fleet, model);
  EXPECT_EQ(no_model.never, "no node has a GPU of model H200");
  EXPECT_EQ(first_remedy(no_model), "the request allows every GPU model");
  Request island = gpus(6);
  island.gpus = {Closeness::kNvlink, true};
  EXPECT_EQ(why(fleet, island).never, "no node has 6 GPUs in one NVLink island");
  EXPECT_TRUE(has_remedy(why(fleet, island), "the GPUs need not be in one NVLink island"));
  EXPECT_EQ(why(fleet, gang(9, 1)).never,
            "the cluster has room for 8 of the 9 members, also when it is empty");
}

TEST(Explain, NodesThatAreClosedOrBroken) {
  Fleet fleet({node("node-a", 2), node("node-b", 2)});
  fleet.cluster.cordon(NodeId(1), "fan broken");
  fleet.cluster.set_unusable(NodeId(0), 1, "ECC errors");
  const Explanation explanation = why(fleet, gpus(2));
  EXPECT_EQ(explanation.nodes[0].text, "1 GPU healthy of the 2 asked; gpu1: ECC errors");
  EXPECT_EQ(explanation.nodes[1].text, "cordoned: fan broken");
  EXPECT_EQ(first_remedy(explanation), "gpu1 of node-a becomes healthy");
  EXPECT_TRUE(has_remedy(explanation, "node-b takes work again"));
}

TEST(Explain, LabelsTaintsTenantsAndNames) {
  std::vector<NodeSpec> nodes{node("node-a", 1), node("node-b", 1), node("node-c", 1)};
  nodes[0].labels["pool"] = "train";
  nodes[1].labels["pool"] = "train";
  nodes[0].taints = {"dedicated"};
  Fleet fleet(nodes);
  fleet.cluster.exclude("red", NodeId(1));
  Request request = gpus(1);
  request.tenant = "red";
  request.labels["pool"] = "train";
  const Explanation explanation = why(fleet, request);
  EXPECT_EQ(explanation.nodes[0].text,
            "has the taint dedicated, which the request does not tolerate");
  EXPECT_EQ(explanation.nodes[1].text, "tenant red may not use it");
  EXPECT_EQ(explanation.nodes[2].text, "lacks the label pool=train");
  EXPECT_TRUE(has_remedy(explanation, "the request tolerates the taint dedicated"));
  EXPECT_TRUE(has_remedy(explanation, "the request asks for no label"));
  Request pinned = gpus(2);
  pinned.devices = {"node-c/0", "node-b/0"};
  EXPECT_EQ(why(fleet, pinned).nodes[2].refusal, Refusal::kTooFewGpus);
  Request nowhere = gpus(1);
  nowhere.nodes = {"node-x"};
  EXPECT_EQ(why(fleet, nowhere).never, "there is no node of the name that the request gives");
}

TEST(Explain, TheExclusionThatMattersIsNamed) {
  Fleet fleet({node("node-a", 1), node("node-b", 2)});
  fleet.cluster.exclude("red", NodeId(0));
  fleet.cluster.exclude("red", NodeId(1));
  Request request = gpus(2);
  request.tenant = "red";
  const Explanation explanation = why(fleet, request);
  EXPECT_TRUE(has_remedy(explanation, "tenant red may use node-b again"));
  EXPECT_FALSE(has_remedy(explanation, "tenant red may use node-a again"));
}

TEST(Explain, GpusThatAreNotNamedAreNotCalledBroken) {
  Fleet fleet({node("node-a", 4)});
  Request request = gpus(2);
  request.devices = {"node-a/1"};
  const Explanation explanation = why(fleet, request);
  EXPECT_EQ(explanation.nodes[0].refusal, Refusal::kNotNamed);
  EXPECT_TRUE(has_remedy(explanation, "the request names no GPUs"));
}

TEST(Explain, CpuAndRam) {
  Fleet fleet({node("node-a", 2)});
  fleet.cluster.take(
      {.node = NodeId(0), .cpu_milli = 62'000, .ram = static_cast<std::int64_t>(gib(510).count())});
  Request request = gpus(1);
  request.member.cpu_milli = 4'000;
  const Explanation cpus = why(fleet, request);
  EXPECT_EQ(cpus.nodes[0].text, "2 CPUs free of the 4 asked");
  EXPECT_EQ(first_remedy(cpus), "2 CPUs are freed on node-a");
  request.member.cpu_milli = 0;
  request.member.ram = gib(8);
  const Explanation ram = why(fleet, request);
  EXPECT_EQ(ram.nodes[0].text, "2 GiB RAM free of the 8 GiB asked");
  EXPECT_EQ(first_remedy(ram), "6 GiB RAM are freed on node-a");
}

TEST(Explain, GangsSayHowManyFit) {
  Fleet fleet({node("node-a", 8), node("node-b", 8)});
  fleet.take(0, 0b0000'0111);
  const Explanation explanation = why(fleet, gang(16, 1));
  EXPECT_EQ(explanation.fit_now, 13U);
  EXPECT_EQ(explanation.nodes[0].members_fit, 5U);
  EXPECT_EQ(first_remedy(explanation), "3 more GPUs become whole (gpu0, gpu1 and gpu2) on node-a");
  EXPECT_TRUE(has_remedy(explanation, "13 members are enough"));
  EXPECT_EQ(summary(explanation).substr(0, 22), "13 of 16 members fit; ");
}

TEST(Explain, SpreadAndNearnessOfMembers) {
  Fleet fleet({node("node-a", 4), node("node-b", 4)});
  Request apart = gang(3, 1);
  apart.spread = Spread{Closeness::kNode, 1};
  const Explanation explanation = why(fleet, apart);
  EXPECT_EQ(explanation.fit_now, 2U);
  EXPECT_TRUE(has_remedy(explanation, "more than 1 member may be in one node"));
  Request together = gang(6, 1);
  together.members_near = {Closeness::kNode, true};
  EXPECT_EQ(why(fleet, together).never,
            "one node has room for at most 4 of the 6 members, also when it is empty");
  EXPECT_TRUE(has_remedy(why(fleet, together), "the members need not be in one node"));
}

TEST(Explain, TextIsShortOrLong) {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 9; ++i) nodes.push_back(node(fmt::format("node-{}", i), 2));
  Fleet fleet(nodes);
  for (std::uint32_t i = 0; i < 9; ++i) fleet.take_part(i, 0, 100 * (i + 1));
  const Explanation explanation = why(fleet, gpus(2));
  EXPECT_EQ(to_text(explanation),
            "train (2 GPUs) does not fit on the 9 nodes as things are.\n"
            "  whole GPUs: 9 nodes\n"
            "  node-0: 1 GPU wholly free of the 2 asked\n"
            "  node-1: 1 GPU wholly free of the 2 asked\n"
            "  node-2: 1 GPU wholly free of the 2 asked\n"
            "  node-3: 1 GPU wholly free of the 2 asked\n"
            "  and 5 more nodes\n"
            "It starts if 1 more GPU becomes whole (gpu0) on node-0\n"
            "  or if 1 more GPU becomes whole (gpu0) on node-1\n"
            "  or if 1 more GPU becomes whole (gpu0) on node-2\n"
            "  or if it asks for 1 GPU\n");
  const std::string all = to_text(explanation, Detail::kLong);
  EXPECT_NE(all.find("  node-8: 1 GPU wholly free of the 2 asked\n    gpu0: 0.1 and 8 GiB free\n"),
            std::string::npos)
      << all;
  EXPECT_EQ(to_text(why(fleet, gpus(1))), "train fits\n");
}

TEST(Explain, AnEmptyClusterHasNoNodes) {
  Fleet fleet({});
  EXPECT_EQ(why(fleet, gpus(1)).never, "there are no nodes");
}

// What is said to help helps: every remedy that frees something was tried, so that at least one is
// there whenever the emptied cluster would do.
TEST(Explain, ThereIsAlwaysARemedyOrANever) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 4), node("b", 2, gib(40)), node("c", 8)});
    fill(fleet, lots, 12);
    if (lots.below(3) == 0) fleet.cluster.cordon(NodeId(lots.below(3)), "maintenance");
    if (lots.below(3) == 0) fleet.cluster.set_unusable(NodeId(0), lots.below(4), "ECC errors");
    Request request = gang(1 + lots.below(5), lots.below(4), lots.below(2) * 500);
    if (!check(request)) continue;
    if (lots.below(3) == 0) request.gpus = {Closeness::kNvlink, true};
    if (lots.below(3) == 0) request.members_near = {Closeness::kNode, true};
    const Explanation explanation = why(fleet, request);
    EXPECT_EQ(explanation.fits, fleet.fits(request));
    if (explanation.fits) continue;
    EXPECT_LT(explanation.fit_now, explanation.least);
    const bool broken = std::ranges::any_of(explanation.nodes, [](const NodeReason& reason) {
      return reason.refusal == Refusal::kClosed || reason.refusal == Refusal::kUnhealthy;
    });
    EXPECT_TRUE(!explanation.never.empty() || broken ||
                explanation.remedies.front().kind == RemedyKind::kFree)
        << to_text(explanation, Detail::kLong);
  }
}

}  // namespace
}  // namespace divvy::place
