#include "sim/job_sharing.h"

#include <gtest/gtest.h>

namespace divvy::sim {
namespace {

TraceJob job(double iteration_ms, double cpu_ms, double gpu_ms, double net_ms) {
  TraceJob made;
  made.iteration_ms = iteration_ms;
  made.resource_ms = {cpu_ms, gpu_ms, net_ms};
  return made;
}

ShareGroup group_of(std::initializer_list<TraceJob> jobs) {
  ShareGroup group;
  for (const auto& one : jobs) group.add(one);
  return group;
}

TEST(ShareGroup, AloneNobodyIsSlowedDown) {
  EXPECT_EQ(group_of({job(100, 120, 80, 0)}).speed(), 1);
}

TEST(ShareGroup, JobsThatUseDifferentResourcesOnlyLoseTheGaps) {
  const auto group = group_of({job(100, 90, 10, 0), job(50, 0, 45, 0)});
  EXPECT_DOUBLE_EQ(group.speed(), 0.95);
  EXPECT_DOUBLE_EQ(group.throughput(), 1.9);
}

TEST(ShareGroup, TheBusiestResourceSetsTheSpeed) {
  EXPECT_DOUBLE_EQ(group_of({job(100, 80, 0, 0), job(100, 80, 0, 50)}).speed(), 0.95 / 1.6);
  // More than a whole iteration of a resource counts as a whole one.
  EXPECT_DOUBLE_EQ(group_of({job(100, 150, 0, 0), job(100, 100, 0, 0)}).speed(), 0.95 / 2);
}

TEST(ShareGain, IsWhatAllDoTogetherComparedWithBefore) {
  const auto alone = group_of({job(100, 90, 10, 0)});
  EXPECT_DOUBLE_EQ(share_gain(alone, job(50, 0, 45, 0)), 1.9);
  EXPECT_LT(share_gain(alone, job(100, 90, 10, 0)), 1.1);
  const auto light = job(100, 1, 1, 1);
  EXPECT_EQ(share_gain(group_of({light, light, light, light}), light), 0);
}

TEST(ShareModel, ReadsBackAndNeedsTheTracesColumns) {
  EXPECT_EQ(parse_share_model("none"), ShareModel::kNone);
  EXPECT_EQ(parse_share_model("resources"), ShareModel::kResources);
  EXPECT_FALSE(parse_share_model("ideal").has_value());
  EXPECT_FALSE(can_share(job(100, 0, 0, 0)));
  EXPECT_TRUE(can_share(job(100, 0, 1, 0)));
}

}  // namespace
}  // namespace divvy::sim
