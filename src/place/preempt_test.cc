#include "place/preempt.h"

#include <gtest/gtest.h>

#include <map>

#include "place/plans_testing.h"

namespace divvy::place {
namespace {

using namespace testing;

Request urgent(std::uint32_t whole, std::uint32_t part = 0) {
  Request request = gpus(whole, part, "urgent");
  request.priority = 10;
  return request;
}

std::optional<PreemptionPlan> plan(Fleet& fleet, const Request& request,
                                   std::span<const Reservation> reservations = {}) {
  const std::string before = fleet.picture();
  auto result = plan_preemption(*fleet.placer, request, reservations);
  EXPECT_EQ(fleet.picture(), before) << "a plan changed the cluster";
  return result;
}

std::vector<std::uint64_t> jobs(const std::optional<PreemptionPlan>& plan) {
  std::vector<std::uint64_t> result;
  if (!plan) return {999};
  for (const Victim& victim : plan->victims) result.push_back(victim.job);
  std::ranges::sort(result);
  return result;
}

using Jobs = std::vector<std::uint64_t>;

TEST(Preempt, EvictsNobodyWhereTheRequestFits) {
  Fleet fleet({node("a", 2)});
  fleet.take(0, 0b01, 1);
  const auto result = plan(fleet, urgent(1));
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->victims.empty());
  EXPECT_EQ(result->spots.size(), 1U);
}

TEST(Preempt, FewestVictimsFirst) {
  Fleet fleet({node("a", 2), node("b", 2)});
  fleet.take(0, 0b01, 1);
  fleet.take(0, 0b10, 2);
  fleet.take(1, 0b11, 3, 5);
  EXPECT_EQ(jobs(plan(fleet, urgent(2))), Jobs{3});
}

TEST(Preempt, ThenTheLowestPriorityThenTheSmallest) {
  Fleet fleet({node("a", 1), node("b", 1), node("c", 1)});
  fleet.take(0, 1, 1, 5);
  fleet.take(1, 1, 2, 3);
  fleet.take_part(2, 0, 900, 3, 3);
  EXPECT_EQ(jobs(plan(fleet, urgent(1))), Jobs{3});
}

TEST(Preempt, SparesEqualPrioritiesAndNonPreemptibleMembers) {
  Fleet fleet({node("a", 1), node("b", 1)});
  fleet.take(0, 1, 1, 10);
  fleet.take(1, 1, 2, 0, false);
  EXPECT_EQ(plan(fleet, urgent(1)), std::nullopt);
}

TEST(Preempt, AGangIsEvictedAsAWhole) {
  Fleet fleet({node("a", 1), node("b", 1), node("c", 1)});
  fleet.take(0, 1, 1);
  fleet.take(1, 1, 1);
  fleet.take(2, 1, 2);
  // Both are one victim of the same priority, but the gang displaces more.
  EXPECT_EQ(jobs(plan(fleet, urgent(1))), Jobs{2});
  fleet.cluster.release(fleet.cluster.on(NodeId(2)).front());
  fleet.take(2, 1, 2, 0, false);
  const auto result = plan(fleet, urgent(1));
  ASSERT_EQ(jobs(result), Jobs{1});
  EXPECT_EQ(result->victims[0].holdings.size(), 2U);
  EXPECT_EQ(result->victims[0].share, 2'000U);
}

TEST(Preempt, ANonPreemptibleMemberProtectsItsGang) {
  Fleet fleet({node("a", 1), node("b", 1)});
  fleet.take(0, 1, 1);
  fleet.take(1, 1, 1, 0, false);
  EXPECT_EQ(plan(fleet, urgent(1)), std::nullopt);
}

TEST(Preempt, NearnessHoldsInTheResult) {
  Fleet fleet({node("a", 8)});
  for (std::uint64_t gpu = 0; gpu < 8; ++gpu) {
    fleet.take(0, static_cast<std::uint16_t>(1U << gpu), gpu + 1, gpu == 4 ? 5 : 0);
  }
  Request request = urgent(4);
  request.gpus = {Closeness::kNvlink, true};
  const auto result = plan(fleet, request);
  ASSERT_EQ(jobs(result), (Jobs{1, 2, 3, 4}));
  EXPECT_EQ(result->spots[0].whole, 0b0000'1111);
}

TEST(Preempt, GangsTakeTheRackWhereLeastIsLost) {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(node(fmt::format("n{}", i), 2));
    nodes.back().rack = i < 2 ? "left" : "right";
  }
  Fleet fleet(nodes);
  fleet.take(0, 0b11, 1);
  fleet.take(1, 0b01, 2);
  fleet.take(2, 0b01, 3);
  Request request = urgent(1);
  request.members = 4;
  request.members_near = {Closeness::kRack, true};
  const auto result = plan(fleet, request);
  ASSERT_EQ(jobs(result), Jobs{3});
  for (const Spot& spot : result->spots) EXPECT_GE(spot.node, NodeId(2));
}

TEST(Preempt, ReservationsAreLeftAlone) {
  Fleet fleet({node("a", 1), node("b", 1)});
  fleet.take(0, 1, 1, 0);
  fleet.take(1, 1, 2, 5);
  Reservation reservation{"gang", 10, 100, {Spot{.node = NodeId(0), .whole = 1}}};
  EXPECT_EQ(jobs(plan(fleet, urgent(1))), Jobs{1});
  EXPECT_EQ(jobs(plan(fleet, urgent(1), std::vector{reservation})), Jobs{2});
  reservation.priority = 9;  // The request comes before it.
  EXPECT_EQ(jobs(plan(fleet, urgent(1), std::vector{reservation})), Jobs{1});
}

TEST(Preempt, TheCpusOfAReservationAreLeftAloneToo) {
  Fleet fleet({node("a", 2)});
  fleet.cluster.take({.node = NodeId(0), .whole = 0b01, .cpu_milli = 40'000}, 1);
  fleet.cluster.take({.node = NodeId(0), .whole = 0b10, .cpu_milli = 20'000}, 2);
  Request request = urgent(1);
  request.member.cpu_milli = 44'000;
  const Reservation reservation{
      "gang", 10, 100, {Spot{.node = NodeId(0), .whole = 0b10, .cpu_milli = 30'000}}};
  EXPECT_EQ(jobs(plan(fleet, request)), Jobs{1});
  EXPECT_EQ(plan(fleet, request, std::vector{reservation}), std::nullopt);
}

// --- Against every possible set of victims ---

struct Best {
  std::size_t victims = 0;
  std::vector<std::int32_t> priorities;
  std::uint64_t share = 0;
  friend auto operator<=>(const Best&, const Best&) = default;
};

std::optional<Best> brute_force(Fleet& fleet, const Request& request) {
  struct Job {
    std::int32_t priority = 0;
    std::uint64_t share = 0;
    bool spared = false;
    std::vector<HoldingId> holdings;
  };
  std::map<std::uint64_t, Job> all;
  for (std::uint32_t i = 0; i < fleet.cluster.size(); ++i) {
    for (const HoldingId id : fleet.cluster.on(NodeId(i))) {
      const Holding& holding = fleet.cluster.holding(id);
      Job& job = all[holding.job];
      job.priority = holding.priority;
      job.share += holding.spot.share();
      job.spared = job.spared || !holding.preemptible || holding.priority >= request.priority;
      job.holdings.push_back(id);
    }
  }
  std::vector<Job> candidates;
  for (auto& [number, job] : all) {
    if (!job.spared) candidates.push_back(job);
  }
  std::optional<Best> best;
  for (unsigned set = 0; set < 1U << candidates.size(); ++set) {
    Best cost;
    const Cluster::Mark mark = fleet.cluster.mark();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      ++cost.victims;
      cost.priorities.push_back(candidates[i].priority);
      cost.share += candidates[i].share;
      for (const HoldingId id : candidates[i].holdings) fleet.cluster.release(id);
    }
    std::ranges::sort(cost.priorities, std::ranges::greater{});
    if ((!best || cost < *best) && fleet.fits(request)) best = cost;
    fleet.cluster.rollback(mark);
  }
  return best;
}

void compare_with_brute_force(std::uint64_t seeds, bool gangs) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 4), node("b", 2), node("c", 3)});
    fill(fleet, lots, 9, 4);
    Request request = lots.below(3) == 0 ? urgent(0, 300 + 100 * lots.below(6))
                                         : urgent(1 + lots.below(4), lots.below(2) * 500);
    request.priority = static_cast<std::int32_t>(1 + lots.below(4));
    request.member.cpu_milli = lots.below(30'000);
    if (lots.below(3) == 0) request.gpus = {Closeness::kPcie, true};
    if (gangs) {
      request.members = 2 + lots.below(3);
      if (lots.below(2) == 0) request.members_near = {Closeness::kNode, true};
      if (lots.below(4) == 0) request.spread = Spread{Closeness::kNode, 1};
    }
    const auto expected = brute_force(fleet, request);
    const auto result = plan(fleet, request);
    ASSERT_EQ(result.has_value(), expected.has_value()) << seed;
    if (!result) continue;
    ++found;
    Best cost;
    cost.victims = result->victims.size();
    for (const Victim& victim : result->victims) {
      cost.priorities.push_back(victim.priority);
      cost.share += victim.share;
    }
    std::ranges::sort(cost.priorities, std::ranges::greater{});
    EXPECT_EQ(cost, *expected) << seed << ": " << cost.victims << " victims instead of "
                               << expected->victims;
    // The spots fit when the victims are gone, and each victim is needed.
    const Cluster::Mark mark = fleet.cluster.mark();
    for (const Victim& victim : result->victims) {
      for (const HoldingId id : victim.holdings) fleet.cluster.release(id);
    }
    for (const Spot& spot : result->spots) {
      EXPECT_TRUE(fleet.cluster.fits(spot));
      fleet.cluster.take(spot);
    }
    fleet.cluster.rollback(mark);
  }
  EXPECT_GT(found, static_cast<int>(seeds / 4));
}

TEST(Preempt, OneMemberMatchesBruteForce) { compare_with_brute_force(400, false); }

TEST(Preempt, GangsMatchBruteForce) { compare_with_brute_force(200, true); }

TEST(Preempt, NobodyIsEvictedInVainInALargeCluster) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Lots lots(seed);
    std::vector<NodeSpec> nodes;
    for (int i = 0; i < 40; ++i) nodes.push_back(node(fmt::format("n{}", i), 8));
    Fleet fleet(nodes);
    fill(fleet, lots, 700, 5);
    Request request = urgent(8);
    request.members = 1 + lots.below(6);
    const auto result = plan(fleet, request);
    if (!result) continue;
    for (const Victim& spared : result->victims) {
      const Cluster::Mark mark = fleet.cluster.mark();
      for (const Victim& victim : result->victims) {
        if (victim.job == spared.job) continue;
        for (const HoldingId id : victim.holdings) fleet.cluster.release(id);
      }
      EXPECT_FALSE(fleet.fits(request)) << seed;
      fleet.cluster.rollback(mark);
    }
  }
}

}  // namespace
}  // namespace divvy::place
