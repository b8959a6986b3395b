#include "place/policies.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "place/fragmentation.h"
#include "place/outcome.h"
#include "place/placer.h"

namespace divvy::place {
namespace {

constexpr std::uint64_t kMemory = 16'000'000'000;  // every thousandth is a whole number of bytes

NodeSpec node(std::string name, std::uint64_t cpus, std::size_t gpus) {
  NodeSpec spec;
  spec.name = std::move(name);
  spec.cpu_milli = cpus * 1000;
  spec.ram = gib(256);
  for (std::size_t i = 0; i < gpus; ++i) {
    DeviceSpec& device = spec.devices.emplace_back();
    device.model = "T4";
    device.memory = Bytes(kMemory);
  }
  return spec;
}

// Eight GPUs: islands 0-3 and 4-7, switches of two.
NodeSpec linked_node(std::string name) {
  NodeSpec spec = node(std::move(name), 128, 8);
  for (std::uint32_t i = 0; i < 8; ++i) {
    spec.devices[i].nvlink_island = i / 4;
    spec.devices[i].pcie_switch = i / 2;
    spec.devices[i].numa_node = i / 4;
  }
  return spec;
}

Ask part(std::uint32_t thousandths, std::int64_t cpus = 0) {
  return {.part = thousandths, .cpu_milli = cpus * 1000};
}
Ask whole(std::uint32_t gpus, std::int64_t cpus = 0) {
  return {.whole = gpus, .cpu_milli = cpus * 1000};
}
Ask cpus_only(std::int64_t cpus) { return {.cpu_milli = cpus * 1000}; }

class Policies : public testing::Test {
 protected:
  NodeId add(const NodeSpec& spec) { return cluster_.add(spec).value(); }

  // As if something had been placed on these GPUs already.
  void take(NodeId id, const Ask& ask, const Choice& choice) {
    cluster_.take(spot_of(view(cluster_, id), ask, choice));
  }
  void take_part(NodeId id, std::uint32_t thousandths, std::int8_t device) {
    take(id, part(thousandths), {.part_device = device});
  }

  Policy& prepared(std::unique_ptr<Policy> policy) {
    policy_ = std::move(policy);
    policy_->prepare(cluster_, workload_);
    return *policy_;
  }
  Choice choice(NodeId id, const Ask& ask) { return policy_->choose(view(cluster_, id), ask); }
  float score(NodeId id, const Ask& ask) {
    return policy_->score(view(cluster_, id), ask, choice(id, ask));
  }

  Cluster cluster_;
  Workload workload_;
  std::unique_ptr<Policy> policy_;
};

// --- dotprod ---

TEST_F(Policies, DotProdMultipliesWhatIsFreeWithWhatIsAsked) {
  const NodeId id = add(node("a", 64, 4));
  prepared(make_dotprod());
  // CPUs 0.5 x 0.25, GPUs 4000/8000 x 2000/8000: 1 - (0.125 + 0.125) / 2
  EXPECT_EQ(score(id, whole(2, 32)), 87);
  // CPUs 0.5 x 0.0625, GPUs 0.5 x 0.0575: 1 - 0.03 = 0.97
  EXPECT_EQ(score(id, part(460, 8)), 97);
}

TEST_F(Policies, DotProdMeasuresAgainstALargerNodeWhereThereIsOne) {
  const NodeId small = add(node("a", 64, 4));
  add(node("b", 256, 16));
  prepared(make_dotprod());
  // CPUs 0.25 x 0.125, GPUs 0.25 x 0.125: 1 - 0.03125
  EXPECT_EQ(score(small, whole(2, 32)), 96);
}

// --- clustering ---

TEST_F(Policies, ClusteringPrefersNodesWithTheSameKindAlone) {
  const NodeId same = add(node("same", 96, 8));
  const NodeId mixed = add(node("mixed", 96, 8));
  const NodeId other = add(node("other", 96, 8));
  const NodeId empty = add(node("empty", 96, 8));
  take(same, whole(2), {.whole = 0b11});
  take(mixed, whole(2), {.whole = 0b11});
  take_part(mixed, 500, 2);
  take(other, whole(4), {.whole = 0b1111});
  take(empty, cpus_only(4), {});  // no GPU, so it counts for nothing
  prepared(make_clustering());
  EXPECT_EQ(score(same, whole(2)), 75 + 6);   // 25 x 2000/8000 = 6.25
  EXPECT_EQ(score(mixed, whole(2)), 50 + 7);  // 25 x 2500/8000 = 7.8
  EXPECT_EQ(score(other, whole(2)), 12);      // 25 x 4000/8000 = 12.5
  EXPECT_EQ(score(empty, whole(2)), 25);
  EXPECT_EQ(score(mixed, part(300)), 50 + 7);
  EXPECT_EQ(score(same, cpus_only(1)), 0);
}

// --- packing ---

TEST_F(Policies, PackingScoresInThreeBands) {
  const NodeId idle8 = add(node("idle8", 96, 8));
  const NodeId idle2 = add(node("idle2", 96, 2));
  const NodeId used = add(node("used", 96, 4));
  take_part(used, 600, 1);
  prepared(make_packing());
  EXPECT_EQ(score(idle8, part(300)), 25);  // 33 - 8
  EXPECT_EQ(score(idle2, part(300)), 31);  // 33 - 2
  EXPECT_EQ(score(used, part(300)), 96);   // the GPU with 40 % free: 100 - 40/10
  EXPECT_EQ(score(used, part(500)), 49);   // a free GPU has to be broken: 50 - 1
  EXPECT_EQ(score(used, whole(2)), 48);
  EXPECT_EQ(score(used, cpus_only(1)), 0);
}

TEST_F(Policies, PackingNeverFallsBelowTheBandOfNodesInUse) {
  const NodeId used = add(node("used", 96, 16));
  take_part(used, 600, 0);
  const NodeId idle = add(node("idle", 96, 16));
  prepared(make_packing());
  EXPECT_EQ(score(used, whole(15)), 35);
  EXPECT_EQ(score(idle, whole(15)), 17);  // max(33 - 16, 16)
}

// --- bestfit ---

TEST_F(Policies, BestFitPrefersWhereLessIsLeft) {
  const NodeId large = add(node("large", 128, 8));
  const NodeId small = add(node("small", 64, 2));
  prepared(make_bestfit());
  // Left: CPUs 96/128, GPUs 6000/8000: 1 - 0.75
  EXPECT_EQ(score(large, whole(2, 32)), 25);
  // Left: CPUs 32/128, GPUs 0: 1 - 0.125 = 0.875
  EXPECT_EQ(score(small, whole(2, 32)), 87);
}

TEST_F(Policies, BestFitStretchesTheCandidates) {
  add(node("a", 64, 2));
  Policy& policy = prepared(make_bestfit());
  ASSERT_TRUE(policy.compares());
  std::vector<Candidate> candidates{{NodeId(0), 40}, {NodeId(1), 70}, {NodeId(2), 53}};
  policy.compare(whole(1), candidates);
  EXPECT_EQ(candidates[0].score, 0);
  EXPECT_EQ(candidates[1].score, 100);
  EXPECT_EQ(candidates[2].score, 43);  // 13 of 30

  std::vector<Candidate> equal{{NodeId(0), 40}, {NodeId(1), 40}};
  policy.compare(whole(1), equal);
  EXPECT_EQ(equal[0].score, equal[1].score);
  policy.compare(whole(1), {});
}

// --- random ---

TEST_F(Policies, RandomGivesEveryNodeAndEveryGpuItsTurn) {
  const NodeId id = add(node("a", 64, 4));
  take_part(id, 800, 2);
  Policy& policy = prepared(make_random(1));
  ASSERT_TRUE(policy.compares());
  std::map<std::size_t, int> winners;
  std::set<int> devices;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Candidate> candidates{{NodeId(0), 0}, {NodeId(1), 0}, {NodeId(2), 0}};
    policy.compare(part(300), candidates);
    for (std::size_t i = 0; i < candidates.size(); ++i) winners[i] += candidates[i].score > 0;
    devices.insert(choice(id, part(300)).part_device);
  }
  for (const auto& [candidate, times] : winners) {
    EXPECT_GT(times, 900) << candidate;
    EXPECT_LT(times, 1100) << candidate;
  }
  EXPECT_EQ(devices, (std::set<int>{0, 1, 3}));  // GPU 2 has no room
  policy.compare(part(300), {});
}

TEST_F(Policies, RandomDrawsTheSameLotsFromTheSameSeed) {
  const auto draws = [](std::uint64_t seed) {
    const auto policy = make_random(seed);
    std::vector<std::size_t> drawn;
    for (int round = 0; round < 50; ++round) {
      std::vector<Candidate> candidates(10);
      policy->compare(part(1), candidates);
      for (std::size_t i = 0; i < 10; ++i) {
        if (candidates[i].score > 0) drawn.push_back(i);
      }
    }
    return drawn;
  };
  EXPECT_EQ(draws(7), draws(7));
  EXPECT_NE(draws(7), draws(8));
}

// --- fgd ---

class Fgd : public Policies {
 protected:
  Fgd() {
    workload_.count(part(500, 4), 3);
    workload_.count(whole(2, 8), 1);
  }
};

TEST_F(Fgd, FragmentationIsWhatTypicalAsksCannotUse) {
  const NodeId id = add(node("a", 16, 2));
  Fragmentation fragmentation(workload_.typical(1));
  // Everything is of use to everybody.
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 0);
  take_part(id, 600, 0);
  // Of free 400 and 1000: for the part 400 is useless, for two GPUs all of it.
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 0.75 * 400 + 0.25 * 1400);
  take(id, cpus_only(14), {});
  // Two CPUs are too few for either.
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 1400);
}

TEST_F(Fgd, FragmentationKnowsModelsAndAsksWithoutGpu) {
  const NodeId id = add(node("a", 16, 2));
  Ask other_model = part(500, 4);
  other_model.models = 0b10;  // the cluster's only model is number 0
  Workload workload;
  workload.count(other_model, 1);
  workload.count(cpus_only(1), 1);
  workload.count(part(500, 4), 2);
  Fragmentation fragmentation(workload.typical(1));
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 0.25 * 2000 + 0.25 * 2000);
}

TEST_F(Fgd, FragmentationOfMixedAsksNeedsAGpuMore) {
  const NodeId id = add(node("a", 16, 2));
  Ask mixed = whole(1, 4);
  mixed.part = 300;
  Workload workload;
  workload.count(mixed, 1);
  Fragmentation fragmentation(workload.typical(1));
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 0);
  take_part(id, 800, 0);
  EXPECT_DOUBLE_EQ(fragmentation.now(view(cluster_, id)), 1200);
}

TEST_F(Fgd, ScoresTheGrowthThroughASigmoid) {
  const NodeId idle = add(node("idle", 16, 2));
  const NodeId used = add(node("used", 16, 2));
  take_part(used, 500, 1);
  prepared(make_fgd());
  // From 0 to (0.75 x 0 + 0.25 x 1500): 100 / (1 + e^0.375) = 40.7
  EXPECT_EQ(score(idle, part(500, 4)), 40);
  // Before 0.25 x 1500. On GPU 1: 0.25 x 1000, gains 0.125: 53.1. On GPU 0 the same as before, but
  // both halves: 0.25 x 1000 too, and 53.1, and the first one of equals wins.
  EXPECT_EQ(score(used, part(500, 4)), 53);
  EXPECT_EQ(choice(used, part(500, 4)).part_device, 0);
  // Two whole GPUs leave nothing free: 0 before and after.
  EXPECT_EQ(score(idle, whole(2, 8)), 50);
  // All CPUs of an idle node: all 2000 become useless, 100 / (1 + e^2) = 11.9
  EXPECT_EQ(score(idle, cpus_only(14)), 11);
}

TEST_F(Fgd, PutsAPartWhereItHurtsLeast) {
  const NodeId id = add(node("a", 64, 2));
  take_part(id, 300, 1);
  prepared(make_fgd());
  // 200 on GPU 0 makes it useless for whole GPUs, which it is already. 200 on GPU 1 leaves 500,
  // which a typical part fits into exactly; on GPU 0 800 and 700 are left. Both leave 1500 that two
  // GPUs cannot use; the first one wins.
  EXPECT_EQ(choice(id, part(200)).part_device, 0);
  // 300 on GPU 1 leaves 400 that nobody can use; on GPU 0 nothing becomes useless.
  EXPECT_EQ(choice(id, part(300)).part_device, 0);
  take_part(id, 200, 1);
  // Now 1000 and 500 are free, and 600 fit on GPU 0 only.
  EXPECT_EQ(choice(id, part(600)).part_device, 0);
}

// --- bundle and spread ---

TEST_F(Policies, BundleFillsNodesInUseFirst) {
  const NodeId idle_large = add(node("idle_large", 128, 8));
  const NodeId idle_small = add(node("idle_small", 128, 2));
  const NodeId used = add(node("used", 128, 8));
  const NodeId fuller = add(node("fuller", 128, 8));
  take(used, whole(1), {.whole = 1});
  take(fuller, whole(4), {.whole = 0b1111});
  prepared(make_bundle());
  EXPECT_FLOAT_EQ(score(idle_large, whole(1)), 50.0F / 8);
  EXPECT_FLOAT_EQ(score(idle_small, whole(1)), 25);
  EXPECT_FLOAT_EQ(score(used, whole(1)), 50 + 50.0F * 2 / 8);
  EXPECT_FLOAT_EQ(score(fuller, whole(1)), 50 + 50.0F * 5 / 8);
  EXPECT_FLOAT_EQ(score(used, whole(1, 64)), 75);  // now the CPUs are the fuller ones
}

TEST_F(Policies, SpreadPrefersTheEmptiestNodeAndGpu) {
  const NodeId idle = add(node("idle", 128, 4));
  const NodeId used = add(node("used", 128, 4));
  take_part(used, 400, 0);
  take_part(used, 200, 1);
  take_part(used, 300, 2);
  take_part(used, 300, 3);
  prepared(make_spread());
  EXPECT_FLOAT_EQ(score(idle, part(400)), 90);
  EXPECT_FLOAT_EQ(score(used, part(400)), 60);
  EXPECT_FLOAT_EQ(score(idle, part(400, 64)), 50);
  EXPECT_EQ(choice(used, part(100)).part_device, 1);
}

// --- nearness, in every policy ---

TEST_F(Policies, GpusThatAreNearEachOtherWinBetweenEqualPlacements) {
  NodeSpec apart = node("apart", 64, 2);
  NodeSpec linked = node("linked", 64, 2);
  for (DeviceSpec& device : linked.devices) device.nvlink_island = 0;
  add(apart);
  const NodeId near = add(linked);
  const NodeId eight = add(linked_node("eight"));
  for (const std::string_view name : {"divvy", "fgd", "bestfit", "bundle", "spread", "topology"}) {
    auto policy = make_policy(name);
    ASSERT_TRUE(policy.has_value());
    Placer placer(cluster_, *std::move(policy));
    Request two;
    two.member.whole_gpus = 2;
    two.excluded_nodes = {"eight"};
    EXPECT_EQ(placer.plan(two).at(0).node, near) << name;
    // GPUs of one switch on the large node, though lower numbers are free.
    const HoldingId held = cluster_.take({.node = eight, .whole = 0b0000'0001});
    two.excluded_nodes = {"apart", "linked"};
    EXPECT_EQ(placer.plan(two).at(0).whole, 0b0000'1100) << name;
    Request one;
    one.member.whole_gpus = 1;
    one.excluded_nodes = two.excluded_nodes;
    EXPECT_EQ(placer.plan(one).at(0).whole, 0b0000'0010) << name;
    Request gang = one;
    gang.members = 2;
    const auto spots = placer.plan(gang);
    ASSERT_EQ(spots.size(), 2U) << name;
    EXPECT_EQ(spots[0].whole | spots[1].whole, 0b0000'1100) << name;
    cluster_.release(held);
  }
}

// --- topology ---

TEST_F(Policies, TopologyKeepsTheGpusOfAMemberTogether) {
  const NodeId id = add(linked_node("a"));
  take(id, whole(1), {.whole = 0b0000'0001});
  prepared(make_topology());
  EXPECT_EQ(choice(id, whole(4)).whole, 0b1111'0000);
  EXPECT_EQ(choice(id, whole(2)).whole, 0b0000'1100);  // of the island that is broken already
  EXPECT_EQ(choice(id, whole(1)).whole, 0b0000'0010);  // and of the switch that is broken
  EXPECT_EQ(choice(id, whole(3)).whole, 0b0000'1110);
}

TEST_F(Policies, TopologyGivesPartsToBrokenIslands) {
  const NodeId id = add(linked_node("a"));
  take(id, whole(1), {.whole = 0b0010'0000});
  prepared(make_topology());
  EXPECT_EQ(choice(id, part(300)).part_device, 4);
  take_part(id, 300, 4);
  EXPECT_EQ(choice(id, part(300)).part_device, 4);
  EXPECT_EQ(choice(id, part(800)).part_device, 6);  // a switch breaks, but no island
}

TEST_F(Policies, TopologyPutsThePartBesideTheWholeGpus) {
  const NodeId id = add(linked_node("a"));
  take_part(id, 500, 7);
  prepared(make_topology());
  Ask mixed = whole(2);
  mixed.part = 300;
  EXPECT_EQ(choice(id, mixed).whole, 0b0011'0000);
  EXPECT_EQ(choice(id, mixed).part_device, 7);
}

TEST_F(Policies, TopologyPrefersNodesWhereItBreaksNothing) {
  const NodeId idle = add(linked_node("idle"));
  const NodeId broken = add(linked_node("broken"));
  const NodeId apart = add(linked_node("apart"));
  take(broken, whole(2), {.whole = 0b0000'0011});
  take(apart, whole(6), {.whole = 0b0111'1110});
  prepared(make_topology());
  EXPECT_GT(score(broken, whole(2)), score(idle, whole(2)));
  EXPECT_GT(score(idle, whole(2)), score(apart, whole(2)));
  // The same island and switch, 30 points for nothing broken, half of the node full afterwards.
  EXPECT_FLOAT_EQ(score(broken, whole(2)), 60 + 30 + 5);
  // Two islands, two switches, two NUMA nodes: nothing for closeness.
  EXPECT_FLOAT_EQ(score(apart, whole(2)), 30 + 10);
  EXPECT_FLOAT_EQ(score(broken, cpus_only(1)), 25);
}

TEST_F(Policies, TopologyWorksWhereNothingIsKnownOfLinks) {
  const NodeId id = add(node("a", 64, 4));
  take_part(id, 500, 0);
  prepared(make_topology());
  EXPECT_EQ(choice(id, whole(2)).whole, 0b0110);
  EXPECT_EQ(choice(id, part(300)).part_device, 0);
}

// --- outcome ---

TEST_F(Policies, OutcomeIsWhatTheClusterHasAfterwards) {
  const NodeId id = add(node("a", 64, 3));
  Ask ask = whole(1, 8);
  ask.part = 250;
  ask.part_memory = 10'000'000'000;  // more of the memory than of the GPU
  const Choice choice{.whole = 0b010, .part_device = 2};
  const Outcome expected = outcome(view(cluster_, id), ask, choice);
  take(id, ask, choice);
  const NodeState& state = cluster_.state(id);
  EXPECT_EQ(expected.cpu_free, state.cpu_free);
  EXPECT_EQ(expected.free, state.free);
  EXPECT_EQ(expected.idle, state.idle);
  EXPECT_EQ(expected.taken, 1625);
}

}  // namespace
}  // namespace divvy::place
