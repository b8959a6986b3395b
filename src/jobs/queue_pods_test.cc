// Jobs whose members are pods of a cluster: they come and go one by one, and make way together.
#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using testing::Desk;
using testing::fleet;
using testing::only;
using testing::queue;
using testing::spec;
using testing::started;

model::JobSpec pods(std::uint32_t thousandths, std::uint32_t members = 1) {
  model::JobSpec result = spec(thousandths, members);
  result.holder = model::Holder::kPods;
  result.command.clear();
  return result;
}

TEST(Pods, OneThatLeavesItsGangFreesItsPlaceWhileTheOthersGoOn) {
  Desk desk({}, fleet(1, 2));
  const JobId gang = desk.submit(pods(1000, 2));
  desk.run();
  const JobId waits = desk.submit(pods(1000));
  EXPECT_TRUE(started(desk.run()).empty());
  desk.queue().member_left(gang, 1, 0, desk.now());
  EXPECT_EQ(desk.state(gang), JobState::kRunning);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{waits});
  desk.queue().member_left(gang, 1, 1, desk.now());
  EXPECT_EQ(desk.state(gang), JobState::kSucceeded);
}

TEST(Pods, OneThatLeavesGivesItsPartOfTheQuotaBack) {
  Settings settings;
  settings.queues = {queue("research", 2000, false)};
  Desk desk(settings, fleet(1, 4));
  const JobId gang = desk.submit_to("research", pods(1000, 2));
  const JobId waits = desk.submit_to("research", pods(1000));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{gang});
  desk.queue().member_left(gang, 1, 1, desk.now());
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{waits});
}

TEST(Pods, ThatJoinAGangAreAPartOfIt) {
  Desk desk({}, fleet(1, 3));
  const JobId gang = desk.submit(pods(1000, 2));
  desk.run();
  desk.queue().member_left(gang, 1, 0, desk.now());
  const JobId next = desk.submit(pods(1000));
  const JobId more = desk.submit(pods(1000));
  desk.run();
  EXPECT_EQ(desk.queue().join(gang, next, desk.now()), std::vector<std::uint32_t>{0})
      << "the rank of the one that left";
  EXPECT_EQ(desk.queue().join(gang, more, desk.now()), std::vector<std::uint32_t>{2});
  EXPECT_EQ(desk.queue().find(next), nullptr);
  ASSERT_EQ(desk.job(gang).members.size(), 3U);
  // Nothing is free, and nothing is held twice.
  const JobId waits = desk.submit(pods(100));
  EXPECT_TRUE(started(desk.run()).empty());
  for (const std::uint32_t rank : {0U, 1U, 2U}) desk.queue().member_left(gang, 1, rank, desk.now());
  EXPECT_EQ(desk.state(gang), JobState::kSucceeded);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{waits});
}

TEST(Pods, MakeWayAsAWholeGang) {
  Desk desk({}, fleet(1, 2));
  const JobId gang = desk.submit(pods(1000, 2));
  desk.run();
  model::JobSpec urgent = pods(1000);
  urgent.priority = 10;
  const JobId first = desk.submit(urgent);
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].job, gang);
  EXPECT_EQ(stops[0].makes_way_for, first);
  // The place is kept until the last of them is gone.
  desk.queue().member_left(gang, 1, 0, desk.now());
  const JobId small = desk.submit(pods(100));
  desk.run();
  desk.queue().member_left(gang, 1, 1, desk.now());
  desk.run();
  EXPECT_EQ(desk.state(first), JobState::kRunning);
  EXPECT_EQ(desk.state(small), JobState::kRunning);
  EXPECT_EQ(desk.state(gang), JobState::kQueued);
}

}  // namespace
}  // namespace divvy::jobs
