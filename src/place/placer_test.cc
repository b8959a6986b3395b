#include "place/placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "place/policies.h"
#include "place/testing.h"

namespace divvy::place {
namespace {

using testing::add;
using ::testing::IsEmpty;
using testing::node;
using testing::part;
using ::testing::SizeIs;
using testing::whole;

Placer placer(Cluster& cluster) { return Placer(cluster, make_bestfit()); }

std::string racked(int i) { return "rack" + std::to_string(i); }

TEST(Placer, AGangIsAllOrNothing) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) add(cluster, node("n" + std::to_string(i), 4));
  Placer engine = placer(cluster);
  EXPECT_THAT(engine.plan(whole(4, 3)), SizeIs(3));
  EXPECT_THAT(engine.plan(whole(4, 4)), IsEmpty());
  EXPECT_EQ(cluster.held_share(), 0U) << "a plan takes nothing";
}

TEST(Placer, AnElasticRequestGetsAsManyAsFit) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) add(cluster, node("n" + std::to_string(i), 4));
  Placer engine = placer(cluster);
  Request request = whole(4, 8);
  request.least_members = 2;
  EXPECT_THAT(engine.plan(request), SizeIs(3));
  request.least_members = 4;
  EXPECT_THAT(engine.plan(request), IsEmpty());
}

TEST(Placer, AGangThatHasToBeNearIsInTheRackWithTheLeastRoom) {
  Cluster cluster;
  for (int i = 0; i < 9; ++i) {
    NodeSpec spec = node("n" + std::to_string(i), 4);
    spec.rack = racked(i < 2 ? 0 : i < 5 ? 1 : 2);  // racks of 2, 3 and 4 nodes
    add(cluster, std::move(spec));
  }
  Placer engine = placer(cluster);
  Request request = whole(4, 3);
  request.members_near = {Closeness::kRack, true};
  std::set<std::uint32_t> racks;
  for (const Spot& spot : engine.plan(request)) racks.insert(cluster.rack(spot.node));
  EXPECT_EQ(racks, std::set<std::uint32_t>{1});
  request.members = 5;
  EXPECT_THAT(engine.plan(request), IsEmpty());
  request.members_near.required = false;
  racks.clear();
  const auto spots = engine.plan(request);
  for (const Spot& spot : spots) racks.insert(cluster.rack(spot.node));
  EXPECT_THAT(spots, SizeIs(5));
  EXPECT_EQ(racks, (std::set<std::uint32_t>{1, 2})) << "as few racks as possible";
}

TEST(Placer, ReplicasAreSpread) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) add(cluster, node("n" + std::to_string(i), 8));
  Placer engine = placer(cluster);
  Request request = part(100, 3);
  request.spread = Spread{Closeness::kNode, 1};
  std::set<std::uint32_t> nodes;
  for (const Spot& spot : engine.plan(request)) nodes.insert(spot.node.value());
  EXPECT_THAT(nodes, SizeIs(3));
  request.members = 4;
  EXPECT_THAT(engine.plan(request), IsEmpty());
}

TEST(Placer, GoesOnlyWhereTheRequestMayGo) {
  Cluster cluster;
  NodeSpec tainted = node("tainted", 1);
  tainted.taints = {"noisy"};
  NodeSpec labelled = node("labelled", 1);
  labelled.labels = {{"disk", "ssd"}};
  add(cluster, tainted);
  const NodeId open = add(cluster, node("open", 1));
  const NodeId with_label = add(cluster, labelled);
  Placer engine = placer(cluster);
  const auto nodes = [&](const Request& request) {
    std::set<std::string> names;
    for (const Spot& spot : engine.plan(request)) names.insert(cluster.spec(spot.node).name);
    return names;
  };
  using Names = std::set<std::string>;
  Request request = whole(1, 3);
  EXPECT_EQ(nodes(request), Names{});
  request.tolerations = {"noisy"};
  EXPECT_EQ(nodes(request), (Names{"labelled", "open", "tainted"}));
  request.members = 1;
  request.labels = {{"disk", "ssd"}};
  EXPECT_EQ(nodes(request), Names{"labelled"});
  request.labels.clear();
  request.nodes = {"open"};
  EXPECT_EQ(nodes(request), Names{"open"});
  cluster.exclude("mallory", open);
  request.tenant = "mallory";
  EXPECT_EQ(nodes(request), Names{});
  request.nodes = {};
  request.tolerations = {};
  EXPECT_EQ(nodes(request), Names{"labelled"});
  cluster.cordon(with_label, "maintenance");
  EXPECT_EQ(nodes(request), Names{});
}

TEST(Placer, KeepsToNamedDevices) {
  Cluster cluster;
  add(cluster, node("a", 4));
  Placer engine = placer(cluster);
  Request request = whole(1);
  request.devices = {"a/2"};
  const auto spots = engine.plan(request);
  ASSERT_THAT(spots, SizeIs(1));
  EXPECT_EQ(spots[0].whole, 0b0100);
  request.member.whole_gpus = 2;
  EXPECT_THAT(engine.plan(request), IsEmpty());
}

// --- Properties, with every policy: about a million events together ---

class EveryPolicy : public ::testing::TestWithParam<std::string_view> {
 protected:
  std::unique_ptr<Policy> policy() { return *make_policy(GetParam(), 7); }
};

struct Job {
  std::vector<HoldingId> holdings;
};

// What a node has handed out, added up from its holdings.
void expect_sound(const Cluster& cluster) {
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeId id(i);
    std::array<std::uint32_t, kMaxDevices> share{};
    std::array<std::uint64_t, kMaxDevices> memory{};
    std::int64_t cpu = 0;
    std::int64_t ram = 0;
    const NodeShape& shape = cluster.shape(id);
    for (const HoldingId holding : cluster.on(id)) {
      const Spot& spot = cluster.holding(holding).spot;
      ASSERT_TRUE(cluster.holding(holding).live);
      cpu += spot.cpu_milli;
      ram += spot.ram;
      for (std::size_t d = 0; d < shape.devices; ++d) {
        if ((spot.whole >> d & 1) != 0) {
          share[d] += Share::kWhole;
          memory[d] += shape.memory[d];
        }
      }
      if (spot.part_device >= 0) {
        share[static_cast<std::size_t>(spot.part_device)] += spot.part;
        memory[static_cast<std::size_t>(spot.part_device)] += spot.part_memory;
      }
    }
    const NodeState& state = cluster.state(id);
    ASSERT_EQ(state.cpu_free, shape.cpu_milli - cpu);
    ASSERT_EQ(state.ram_free, shape.ram - ram);
    ASSERT_GE(state.cpu_free, 0);
    ASSERT_GE(state.ram_free, 0);
    for (std::size_t d = 0; d < shape.devices; ++d) {
      ASSERT_LE(share[d], Share::kWhole);
      ASSERT_LE(memory[d], shape.memory[d]);
      ASSERT_EQ(state.share_free[d], Share::kWhole - share[d]);
      ASSERT_EQ(state.memory_free[d], shape.memory[d] - memory[d]);
    }
  }
}

TEST_P(EveryPolicy, NeverOversubscribesAndForgetsNothing) {
  std::mt19937_64 dice(1);
  Cluster cluster = testing::random_cluster(dice, 12);
  Placer engine(cluster, policy());
  std::vector<Job> jobs;
  for (int i = 0; i < 60'000; ++i) {
    if (!jobs.empty() && dice() % 5 < 2) {
      const std::size_t which = dice() % jobs.size();
      for (const HoldingId holding : jobs[which].holdings) cluster.release(holding);
      jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (dice() % 50 == 0) {
      const NodeId some(static_cast<std::uint32_t>(dice() % cluster.size()));
      cluster.cordon(some, cluster.state(some).open ? "test" : "");
    } else {
      const Request request = testing::random_request(dice);
      const std::uint64_t held = cluster.held_share();
      const auto spots = engine.plan(request);
      ASSERT_EQ(cluster.held_share(), held);
      ASSERT_TRUE(spots.empty() || spots.size() == request.members);
      if (!spots.empty()) jobs.push_back({take_all(cluster, spots)});
    }
    if (i % 500 == 0) expect_sound(cluster);
  }
  expect_sound(cluster);
  for (const Job& job : jobs) {
    for (const HoldingId holding : job.holdings) cluster.release(holding);
  }
  EXPECT_EQ(cluster.held_share(), 0U);
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(cluster.state(NodeId(i)).idle, cluster.shape(NodeId(i)).devices * 1000U);
  }
}

// A single member is placed if and only if some node takes it, by the exact look at every node.
TEST_P(EveryPolicy, FindsANodeWheneverThereIsOne) {
  std::mt19937_64 dice(2);
  Cluster cluster = testing::random_cluster(dice, 10);
  Placer engine(cluster, policy());
  std::vector<HoldingId> held;
  int refused = 0;
  for (int i = 0; i < 35'000; ++i) {
    if (!held.empty() && dice() % 5 < 2) {
      const std::size_t which = dice() % held.size();
      cluster.release(held[which]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    Request request = testing::random_request(dice);
    request.members = 1;
    request.spread.reset();
    const Ask ask = cluster.ask_of(request);
    bool possible = false;
    for (std::uint32_t n = 0; n < cluster.size(); ++n) {
      possible = possible || fits(view(cluster, NodeId(n)), ask);
    }
    const auto spots = engine.plan(request);
    ASSERT_EQ(!spots.empty(), possible) << "event " << i;
    refused += possible ? 0 : 1;
    if (possible) {
      ASSERT_TRUE(cluster.fits(spots[0]));
      held.push_back(cluster.take(spots[0]));
    }
  }
  EXPECT_GT(refused, 50) << "the cluster was never full";
}

TEST_P(EveryPolicy, TheSameEventsGiveTheSameDecisions) {
  const auto run = [this] {
    std::mt19937_64 dice(3);
    Cluster cluster = testing::random_cluster(dice, 12);
    Placer engine(cluster, policy());
    std::vector<Spot> decisions;
    std::vector<HoldingId> held;
    for (int i = 0; i < 1500; ++i) {
      if (!held.empty() && dice() % 3 == 0) {
        const std::size_t which = dice() % held.size();
        cluster.release(held[which]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (const Spot& spot : engine.plan(testing::random_request(dice))) {
        decisions.push_back(spot);
        held.push_back(cluster.take(spot));
      }
    }
    return decisions;
  };
  EXPECT_EQ(run(), run());
}

std::string test_name(const ::testing::TestParamInfo<std::string_view>& info) {
  return std::string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         ::testing::Values("divvy", "fgd", "bestfit", "packing", "clustering",
                                           "dotprod", "random", "bundle", "spread", "topology"),
                         test_name);

// Kept scores and scores that were just worked out choose the same node.
TEST(ScoreTable, KeptScoresEqualFreshOnes) {
  std::mt19937_64 dice(4);
  Cluster cluster = testing::random_cluster(dice, 40);
  Placer kept(cluster, make_fgd());
  std::vector<HoldingId> held;
  for (int i = 0; i < 1500; ++i) {
    if (!held.empty() && dice() % 5 < 2) {
      const std::size_t which = dice() % held.size();
      cluster.release(held[which]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    Request request = testing::random_request(dice);
    request.members = 1;
    request.spread.reset();
    Placer fresh(cluster, make_fgd());
    const auto spots = kept.plan(request);
    ASSERT_EQ(spots, fresh.plan(request)) << "event " << i;
    if (!spots.empty()) held.push_back(cluster.take(spots[0]));
  }
}

}  // namespace
}  // namespace divvy::place
