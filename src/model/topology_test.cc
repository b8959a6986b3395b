#include "model/topology.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace divvy::model {
namespace {

constexpr Link kSelf{LinkKind::kSelf, 0};
constexpr Link kSys{LinkKind::kSys, 0};

TEST(Topology, KnowsNothingAtFirst) {
  const Topology topology(2);
  EXPECT_EQ(topology.size(), 2U);
  EXPECT_EQ(topology.link(0, 0), kSelf);
  EXPECT_EQ(to_string(topology.link(0, 1)), "?");
  EXPECT_EQ(Topology().size(), 0U);
}

TEST(Topology, ALinkIsTheSameInBothDirections) {
  Topology topology(3);
  ASSERT_TRUE(topology.set_link(0, 2, nvlink(18)).has_value());
  EXPECT_EQ(topology.link(2, 0), nvlink(18));
  EXPECT_EQ(to_string(topology.link(0, 2)), "NV18");
}

TEST(Topology, RefusesLinksThatMakeNoSense) {
  Topology topology(2);
  EXPECT_FALSE(topology.set_link(0, 2, kSys).has_value());
  EXPECT_FALSE(topology.set_link(0, 0, kSys).has_value());
  EXPECT_FALSE(topology.set_link(0, 1, kSelf).has_value());
  EXPECT_FALSE(topology.set_link(0, 1, nvlink(0)).has_value());
  EXPECT_FALSE(topology.set_link(0, 1, Link{LinkKind::kPix, 2}).has_value());
  EXPECT_FALSE(topology.set_affinity(2, {}).has_value());
  EXPECT_EQ(topology, Topology(2));
}

TEST(Topology, TakesAWholeMatrix) {
  const auto topology =
      Topology::create({{kSelf, nvlink(4)}, {nvlink(4), kSelf}}, {{"0-31", 0}, {"32-63", 1}});
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  EXPECT_EQ(topology->link(1, 0), nvlink(4));
  EXPECT_EQ(topology->affinity(1).cpus, "32-63");
  EXPECT_EQ(topology->affinity(1).numa_node, 1U);
}

TEST(Topology, RefusesAMatrixThatIsNotOne) {
  const std::vector<Affinity> two(2);
  EXPECT_FALSE(Topology::create({{kSelf, kSys}, {kSys}}, two).has_value());
  EXPECT_FALSE(Topology::create({{kSelf, kSys}, {kSys, kSelf}}, {}).has_value());
  EXPECT_FALSE(Topology::create({{kSelf, kSys}, {nvlink(1), kSelf}}, two).has_value());
  EXPECT_FALSE(Topology::create({{kSys, kSys}, {kSys, kSelf}}, two).has_value());
  EXPECT_FALSE(Topology::create({{kSelf, kSys}, {}}, two).has_value());
}

TEST(Topology, IslandsAreReachableOverNvlink) {
  Topology topology(5);
  ASSERT_TRUE(topology.set_link(0, 3, nvlink(2)).has_value());
  ASSERT_TRUE(topology.set_link(3, 4, nvlink(2)).has_value());
  ASSERT_TRUE(topology.set_link(1, 2, kSys).has_value());
  EXPECT_EQ(topology.islands(), (std::vector<std::vector<std::size_t>>{{0, 3, 4}, {1}, {2}}));
  EXPECT_TRUE(Topology().islands().empty());
}

TEST(Topology, CloserMeansFewerHopsOrMoreLinks) {
  EXPECT_TRUE(closer(nvlink(18), nvlink(4)));
  EXPECT_TRUE(closer(nvlink(1), Link{LinkKind::kPix, 0}));
  EXPECT_TRUE(closer(Link{LinkKind::kNode, 0}, kSys));
  EXPECT_TRUE(closer(kSys, Link{}));
  EXPECT_FALSE(closer(kSys, kSys));
}

RC_GTEST_PROP(TopologyProperty, IslandsArePartsThatDoNotTouch, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 12);
  Topology topology(size);
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool linked = *rc::gen::inRange(0, 5) == 0;
      RC_ASSERT(topology.set_link(a, b, linked ? nvlink(1) : kSys).has_value());
    }
  }
  std::vector<std::size_t> island_of(size, size);
  const auto islands = topology.islands();
  for (std::size_t island = 0; island < islands.size(); ++island) {
    RC_ASSERT(!islands[island].empty());
    for (const std::size_t gpu : islands[island]) {
      RC_ASSERT(island_of[gpu] == size);
      island_of[gpu] = island;
    }
  }
  for (std::size_t a = 0; a < size; ++a) {
    RC_ASSERT(island_of[a] < islands.size());
    for (std::size_t b = 0; b < size; ++b) {
      RC_ASSERT(topology.link(a, b) == topology.link(b, a));
      if (topology.link(a, b).kind == LinkKind::kNvlink) RC_ASSERT(island_of[a] == island_of[b]);
    }
  }
}

}  // namespace
}  // namespace divvy::model
