#include "jobs/growth.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using testing::Desk;
using testing::fleet;
using testing::queue;
using testing::spec;
using testing::started;

NodeKind kind(std::string name, std::size_t gpus, std::string model = "NVIDIA H200") {
  NodeKind one;
  one.node.name = std::move(name);
  one.node.cpu_milli = 64'000;
  one.node.ram = gib(256);
  one.node.devices.resize(gpus);
  for (place::DeviceSpec& device : one.node.devices) {
    device.model = model;
    device.memory = gib(100);
  }
  return one;
}

TEST(Growth, NobodyWaitsAndNothingIsWanted) {
  Desk desk({}, fleet(1, 2));
  desk.submit(spec(1000));
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  EXPECT_EQ(desk.queue().plan_growth(kinds), Growth());
}

TEST(Growth, WhoWaitsForRoomNeedsANode) {
  Desk desk({}, fleet(1, 2));
  desk.submit(spec(2000));
  desk.run();
  const JobId first = desk.submit(spec(1000));
  const JobId second = desk.submit(spec(1000));
  const JobId third = desk.submit(spec(500));
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  const Growth growth = desk.queue().plan_growth(kinds);
  ASSERT_EQ(growth.wanted.size(), 1U);
  EXPECT_EQ(growth.wanted[0].nodes, 2U) << "two of them on one node, the third on another";
  EXPECT_EQ(growth.wanted[0].jobs, (std::vector<JobId>{first, second, third}));
  EXPECT_TRUE(growth.not_helped.empty());
}

TEST(Growth, TakesTheKindThatAddsTheFewestGpus) {
  Desk desk({}, fleet(1, 1));
  desk.submit(spec(1000));
  desk.run();
  desk.submit(spec(2000));
  desk.run();
  const std::vector<NodeKind> kinds{kind("large", 8), kind("small", 2), kind("single", 1)};
  const Growth growth = desk.queue().plan_growth(kinds);
  ASSERT_EQ(growth.wanted.size(), 1U);
  EXPECT_EQ(growth.wanted[0].kind, 1U);
  EXPECT_EQ(growth.wanted[0].nodes, 1U);
}

TEST(Growth, AGangNeedsSeveralAtOnce) {
  Desk desk({}, fleet(1, 2));
  const JobId gang = desk.submit(spec(2000, 4));
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  const Growth growth = desk.queue().plan_growth(kinds);
  ASSERT_EQ(growth.wanted.size(), 1U);
  EXPECT_EQ(growth.wanted[0].nodes, 3U) << "one of the four fits on what is there";
  EXPECT_EQ(growth.wanted[0].jobs, std::vector<JobId>{gang});
}

TEST(Growth, WhomNoKindHelpsIsNamed) {
  Desk desk({}, fleet(1, 2));
  const JobId huge = desk.submit(spec(4000));
  model::JobSpec other = spec(1000);
  other.where.node_labels = {{"pool", "b"}};
  const JobId elsewhere = desk.submit(other);
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  const Growth growth = desk.queue().plan_growth(kinds);
  EXPECT_TRUE(growth.wanted.empty());
  EXPECT_EQ(growth.not_helped, (std::vector<JobId>{huge, elsewhere}));
}

TEST(Growth, WhoWaitsForAQuotaNeedsNoNode) {
  Settings settings;
  settings.queues = {queue("a", 1000, false)};
  Desk desk(settings, fleet(1, 2));
  desk.submit_to("a", spec(1000));
  desk.run();
  desk.submit_to("a", spec(1000));
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  EXPECT_EQ(desk.queue().plan_growth(kinds), Growth());
}

TEST(Growth, IsNoMoreThanThereCanBe) {
  Desk desk({}, fleet(1, 1));
  desk.submit(spec(1000));
  desk.run();
  for (int i = 0; i < 3; ++i) desk.submit(spec(1000));
  desk.run();
  std::vector<NodeKind> kinds{kind("single", 1)};
  kinds[0].most = 2;
  const Growth growth = desk.queue().plan_growth(kinds);
  ASSERT_EQ(growth.wanted.size(), 1U);
  EXPECT_EQ(growth.wanted[0].nodes, 2U);
  EXPECT_EQ(growth.not_helped.size(), 1U);
}

// What it says is enough: with these nodes all of those start, and changes nothing before.
TEST(Growth, WithTheseNodesTheLineMoves) {
  Desk desk({}, fleet(1, 2));
  desk.submit(spec(2000));
  desk.run();
  std::vector<JobId> waiting;
  for (const std::uint32_t share : {500U, 2000U, 300U, 1000U}) {
    waiting.push_back(desk.submit(spec(share)));
  }
  desk.run();
  const std::vector<NodeKind> kinds{kind("small", 2)};
  const Growth growth = desk.queue().plan_growth(kinds);
  ASSERT_EQ(growth.wanted.size(), 1U);
  EXPECT_TRUE(started(desk.pass()).empty());
  desk.set_fleet(fleet(1 + growth.wanted[0].nodes, 2));
  EXPECT_EQ(started(desk.run()).size(), waiting.size());
}

}  // namespace
}  // namespace divvy::jobs
