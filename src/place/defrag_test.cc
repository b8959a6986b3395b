#include "place/defrag.h"

#include <gtest/gtest.h>

#include "place/plans_testing.h"

namespace divvy::place {
namespace {

using namespace testing;

// Where the members are that a plan would move, and what they asked for.
struct Work {
  std::vector<Request> requests;  // by job
  const Cluster* cluster = nullptr;

  [[nodiscard]] RequestOf lookup() const {
    return [this](HoldingId id) -> const Request* {
      const std::uint64_t job = cluster->holding(id).job;
      return job < requests.size() ? &requests[job] : nullptr;
    };
  }
};

std::optional<DefragPlan> plan(Fleet& fleet, const Request& request, const Work& work,
                               DefragLimits limits = {}) {
  const std::string before = fleet.picture();
  auto result = plan_defrag(*fleet.placer, request, work.lookup(), limits);
  EXPECT_EQ(fleet.picture(), before) << "a plan changed the cluster";
  if (!result) return result;
  // The moves can be made in this order, and then the request fits where the plan says.
  const Cluster::Mark mark = fleet.cluster.mark();
  for (const Move& move : result->moves) {
    EXPECT_EQ(fleet.cluster.holding(move.holding).spot, move.from);
    fleet.cluster.release(move.holding);
    EXPECT_TRUE(fleet.cluster.fits(move.to));
    fleet.cluster.take(move.to);
  }
  EXPECT_GE(result->spots.size(), request.least());
  for (const Spot& spot : result->spots) {
    EXPECT_TRUE(fleet.cluster.fits(spot));
    fleet.cluster.take(spot);
  }
  fleet.cluster.rollback(mark);
  return result;
}

TEST(Defrag, PlansNoMovesWhereTheRequestFits) {
  Fleet fleet({node("a", 2)});
  const Work work{{}, &fleet.cluster};
  const auto result = plan(fleet, gpus(2), work);
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->moves.empty());
}

TEST(Defrag, MovesTheSmallOneOutOfTheWay) {
  Fleet fleet({node("a", 2), node("b", 2)});
  const HoldingId small = fleet.take_part(0, 0, 100, 1);
  fleet.take_part(1, 0, 500, 2);
  const Work work{{{}, gpus(0, 100), gpus(0, 500)}, &fleet.cluster};
  const auto result = plan(fleet, gpus(2), work);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->moves.size(), 1U);
  EXPECT_EQ(result->moves[0].holding, small);
  EXPECT_EQ(result->moves[0].to.node, NodeId(1));
  EXPECT_EQ(result->spots[0].node, NodeId(0));
}

TEST(Defrag, PutsPartsOfOneNodeTogether) {
  Fleet fleet({node("a", 2)});
  fleet.take_part(0, 0, 400, 1);
  fleet.take_part(0, 1, 500, 2);
  const Work work{{{}, gpus(0, 400), gpus(0, 500)}, &fleet.cluster};
  const auto result = plan(fleet, gpus(1), work);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->moves.size(), 1U);
  EXPECT_EQ(result->moves[0].from.part, 400);
}

TEST(Defrag, SparesNonPreemptibleMembers) {
  Fleet fleet({node("a", 2), node("b", 2)});
  fleet.take_part(0, 0, 100, 1, 0, false);
  fleet.take_part(1, 0, 500, 2, 5);
  const Work work{{{}, gpus(0, 100), gpus(0, 500)}, &fleet.cluster};
  EXPECT_EQ(plan(fleet, gpus(2), work), std::nullopt);
  Request higher = gpus(2);
  higher.priority = 5;
  EXPECT_TRUE(plan(fleet, higher, work).has_value());
  const Work nobody_knows{{}, &fleet.cluster};
  EXPECT_EQ(plan(fleet, higher, nobody_knows), std::nullopt);
}

TEST(Defrag, ItsOwnRequestSaysWhereAMemberMayGo) {
  Fleet fleet({node("a", 2), node("b", 2), node("c", 1, gib(80), "NVIDIA L4")});
  fleet.take_part(0, 0, 100, 1);
  fleet.take(1, 0b11, 2);
  Request small = gpus(0, 100);
  small.allowed_models = {"A100"};
  const Work work{{{}, small, gpus(2)}, &fleet.cluster};
  EXPECT_EQ(plan(fleet, gpus(2), work), std::nullopt);
  small.allowed_models.clear();
  const Work anywhere{{{}, small, gpus(2)}, &fleet.cluster};
  EXPECT_TRUE(plan(fleet, gpus(2), anywhere).has_value());
}

TEST(Defrag, AGangThatIsSpreadStaysSpread) {
  Fleet fleet({node("a", 2), node("b", 2), node("c", 1)});
  fleet.take_part(0, 0, 100, 1);
  fleet.take_part(1, 0, 100, 1);
  Request replicas = gang(2, 0, 100);
  replicas.spread = Spread{Closeness::kNode, 1};
  const Work work{{{}, replicas}, &fleet.cluster};
  const auto result = plan(fleet, gpus(2), work);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->moves.size(), 1U);
  EXPECT_EQ(result->moves[0].to.node, NodeId(2));
}

TEST(Defrag, SeveralMovesForAGang) {
  Fleet fleet({node("a", 2), node("b", 2), node("c", 2)});
  for (std::uint32_t i = 0; i < 3; ++i) fleet.take_part(i, 0, 300, i + 1);
  const Work work{{{}, gpus(0, 300), gpus(0, 300), gpus(0, 300)}, &fleet.cluster};
  const auto result = plan(fleet, gang(2, 2), work);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->moves.size(), 2U);
  EXPECT_EQ(plan(fleet, gang(2, 2), work, {.moves = 1}), std::nullopt);
  EXPECT_EQ(plan(fleet, gang(3, 2), work), std::nullopt);
}

TEST(Defrag, NearnessHoldsForTheRequest) {
  Fleet fleet({node("a", 8)});
  fleet.take(0, 0b0000'0001, 1);
  fleet.take(0, 0b0011'0000, 2);
  Request request = gpus(4);
  request.gpus = {Closeness::kNvlink, true};
  const Work work{{{}, gpus(1), gpus(2)}, &fleet.cluster};
  const auto result = plan(fleet, request, work);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->moves.size(), 1U);
  EXPECT_EQ(result->spots[0].whole, 0b0000'1111);
}

// Whether any single move of any member to any spot makes the request fit.
bool one_move_helps(Fleet& fleet, const Request& request, const Work& work) {
  for (std::uint32_t from = 0; from < fleet.cluster.size(); ++from) {
    const std::vector<HoldingId> here = fleet.cluster.on(NodeId(from));
    for (const HoldingId id : here) {
      const Holding holding = fleet.cluster.holding(id);
      if (!holding.preemptible || holding.priority > request.priority) continue;
      Request alone = work.requests[holding.job];
      alone.members = 1;
      const Ask ask = fleet.cluster.ask_of(alone);
      for (std::uint32_t to = 0; to < fleet.cluster.size(); ++to) {
        const std::size_t devices = fleet.cluster.shape(NodeId(to)).devices;
        for (unsigned whole = 0; whole < 1U << devices; ++whole) {
          for (int part = -1; part < static_cast<int>(devices); ++part) {
            if (static_cast<unsigned>(std::popcount(whole)) != ask.whole ||
                (part >= 0) != ask.wants_part()) {
              continue;
            }
            const Cluster::Mark mark = fleet.cluster.mark();
            fleet.cluster.release(id);
            const Spot spot =
                spot_of(view(fleet.cluster, NodeId(to)), ask,
                        {static_cast<std::uint16_t>(whole), static_cast<std::int16_t>(part)});
            bool helps = false;
            if (fleet.cluster.fits(spot)) {
              fleet.cluster.take(spot);
              helps = fleet.fits(request);
            }
            fleet.cluster.rollback(mark);
            if (helps) return true;
          }
        }
      }
    }
  }
  return false;
}

TEST(Defrag, ASingleMoveThatHelpsIsFound) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 3), node("b", 2), node("c", 3)}, "spread");
    const Work work{fill(fleet, lots, 5), &fleet.cluster};
    Request request = gpus(1 + lots.below(3), lots.below(2) * 500);
    request.priority = 3;
    request.member.cpu_milli = lots.below(30'000);
    if (fleet.fits(request)) continue;
    const auto result = plan(fleet, request, work);
    const bool helps = one_move_helps(fleet, request, work);
    EXPECT_EQ(result && result->moves.size() == 1, helps) << seed;
    if (result) ++found;
  }
  EXPECT_GT(found, 20);
}

TEST(Defrag, GangPlansCanBeMadeInALargerCluster) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Lots lots(seed);
    std::vector<NodeSpec> nodes;
    for (int i = 0; i < 12; ++i) nodes.push_back(node(fmt::format("n{}", i), 4));
    Fleet fleet(nodes, "spread");
    const Work work{fill(fleet, lots, 14), &fleet.cluster};
    Request request = gang(2 + lots.below(4), 4);
    request.priority = 3;
    if (fleet.fits(request)) continue;
    if (const auto result = plan(fleet, request, work)) {
      ++found;
      EXPECT_LE(result->moves.size(), DefragLimits{}.moves);
    }
  }
  EXPECT_GT(found, 3);
}

}  // namespace
}  // namespace divvy::place
