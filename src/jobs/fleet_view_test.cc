#include "jobs/fleet_view.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using testing::fleet;
using testing::spec;

class FleetViewTest : public ::testing::Test {
 protected:
  std::vector<model::JobMember> place(const model::JobSpec& job) {
    return view_.members_at(view_.placer().plan(view_.request_of(job)), job);
  }
  void set(const Fleet& fleet) { ASSERT_TRUE(view_.update(fleet).has_value()); }

  FleetView view_{"divvy"};
};

TEST_F(FleetViewTest, MembersGetSlicesAndGoBackToTheirSpots) {
  set(fleet(2, 4));
  const model::JobSpec job = spec(2500, 2);
  const auto spots = view_.placer().plan(view_.request_of(job));
  const auto members = view_.members_at(spots, job);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1].rank, 1u);
  ASSERT_EQ(members[0].slices.size(), 3u);
  EXPECT_TRUE(members[0].slices[0].whole_gpu());
  EXPECT_EQ(members[0].slices[2].share(), Share(500));
  EXPECT_EQ(members[0].slices[2].memory(), gib(50));
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(view_.spot_of(members[i], job), spots[i]);
  }
}

TEST_F(FleetViewTest, GpusAreNamedAsUsersNameThem) {
  Fleet gpus = fleet(1, 2);
  set(gpus);
  model::JobSpec job = spec(300);
  job.devices = {"1"};
  EXPECT_EQ(place(job).at(0).slices.at(0).gpu(), gpus.nodes[0].gpus[1].uuid);
  job.devices = {gpus.nodes[0].gpus[0].uuid.str()};
  EXPECT_EQ(place(job).at(0).slices.at(0).gpu(), gpus.nodes[0].gpus[0].uuid);
  job.devices = {"7"};
  EXPECT_TRUE(place(job).empty()) << "a GPU that is not there is not any GPU";
}

TEST_F(FleetViewTest, RestingGpusAndClosedNodesGetNothingNew) {
  Fleet gpus = fleet(2, 1);
  gpus.nodes[0].gpus[0].resting = "it is quarantined";
  set(gpus);
  EXPECT_EQ(place(spec(300)).at(0).node, "node1");
  gpus.nodes[1].closed = "it is drained";
  set(gpus);
  EXPECT_TRUE(place(spec(300)).empty());
}

TEST_F(FleetViewTest, WhatRunsOnARestingGpuIsCountedAllTheSame) {
  Fleet gpus = fleet(1, 1);
  set(gpus);
  const model::JobSpec job = spec(600);
  const auto members = place(job);
  gpus.nodes[0].gpus[0].resting = "it is suspect";
  set(gpus);
  const auto holding = view_.take(*view_.spot_of(members[0], job), 1, 0, false);
  EXPECT_EQ(view_.cluster().held_share(), 600u);
  gpus.nodes[0].gpus[0].resting.clear();
  set(gpus);
  EXPECT_TRUE(place(spec(500)).empty());
  view_.cluster().release(holding);
  EXPECT_EQ(place(spec(1000)).size(), 1u);
}

TEST_F(FleetViewTest, AGpuThatIsHiddenDoesNotFreeTheOthersOfItsJob) {
  set(fleet(1, 2));
  const model::JobSpec job = spec(2000);
  const auto members = place(job);
  set(fleet(1, 1));
  EXPECT_EQ(view_.spot_of(members[0], job)->whole, 1u);
  set(Fleet{});
  EXPECT_FALSE(view_.spot_of(members[0], job).has_value());
}

TEST_F(FleetViewTest, OnlyAnotherFleetIsBuiltAnew) {
  Fleet gpus = fleet(1, 2);
  EXPECT_EQ(view_.update(gpus), true);
  EXPECT_EQ(view_.update(gpus), false);
  gpus.nodes[0].gpus[0].resting = "it is suspect";
  EXPECT_EQ(view_.update(gpus), false);
  gpus.nodes[0].gpus.pop_back();
  EXPECT_EQ(view_.update(gpus), true);
  gpus.nodes.push_back(gpus.nodes[0]);
  EXPECT_FALSE(view_.update(gpus).has_value()) << "two nodes of one name";
  EXPECT_EQ(view_.cluster().size(), 1u);
}

TEST_F(FleetViewTest, SaysWhichGpuWasLost) {
  Fleet gpus = fleet(1, 1);
  set(gpus);
  const auto members = place(spec(500));
  EXPECT_FALSE(view_.lost(members[0]).has_value());
  gpus.nodes[0].gpus[0].lost = true;
  gpus.nodes[0].gpus[0].resting = "XID 79";
  set(gpus);
  EXPECT_EQ(view_.lost(members[0]), "gpu0 of node0 failed: XID 79");
  set(Fleet{});
  EXPECT_FALSE(view_.lost(members[0]).has_value()) << "not listed is not lost";
  set(fleet(1, 1));
  EXPECT_EQ(view_.describe(members[0]), "0.5 of gpu0 of node0");
}

}  // namespace
}  // namespace divvy::jobs
