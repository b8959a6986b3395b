// The daemon is killed and comes back: store, slices and members are compared.
#include <gtest/gtest.h>

#include "control/testing.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::House;

TEST(Recovery, RunningJobsSurviveARestartOfTheDaemon) {
  House house;
  const model::JobId job = house.submit(300);
  house.settle();
  house.kill();
  house.open();
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  EXPECT_EQ(house.runtime.started.size(), 1U) << "not started twice";
  house.runtime.end({job, 1, 0}, 0);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kSucceeded);
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Recovery, ReportsTheExitCodeOfAJobThatEndedWhileTheDaemonWasDown) {
  House house;
  const model::JobId job = house.submit(300);
  house.settle();
  house.kill();
  house.runtime.end_unseen({job, 1, 0}, 7);
  house.open();
  house.settle();
  const model::Job ended = house.stored(job);
  EXPECT_EQ(ended.state, JobState::kFailed);
  ASSERT_TRUE(ended.members.at(0).end.has_value());
  EXPECT_EQ(ended.members[0].end->exit_code, 7);
  EXPECT_TRUE(house.machine.held().empty());
}

// Killed after each thing that a start does: written down, one slice, all slices, one member.
TEST(Recovery, CompletesAnInterruptedStartExactlyOnce) {
  for (const int slices : {0, 1, 2}) {
    for (const int members : {0, 1}) {
      if (members > slices) continue;
      House house;
      const model::JobId job = house.submit(1000, 2);
      // The first half of a start, as if killed in the middle: the job is written as starting.
      house.dispatcher->step();
      house.dispatcher->wait_for_replies();
      house.kill();
      for (const std::uint32_t rank : {0U, 1U}) {
        if (static_cast<int>(rank) >= members) {
          ASSERT_TRUE(house.runtime.forget({job, 1, rank}).has_value());
        }
        if (static_cast<int>(rank) >= slices) {
          ASSERT_TRUE(house.machine.release({job, 1, rank}).has_value());
        }
      }
      house.runtime.started.clear();
      ASSERT_EQ(house.stored_raw(job).state, JobState::kStarting);
      house.open();
      house.settle();
      EXPECT_EQ(house.stored(job).state, JobState::kRunning) << slices << " " << members;
      EXPECT_EQ(house.runtime.started.size(), static_cast<std::size_t>(2 - members));
      EXPECT_EQ(house.machine.held().size(), 2U);
    }
  }
}

// Of the two members one was started when the daemon was killed, and the other one finds its place
// taken.
TEST(Recovery, StopsAPartlyStartedGangBeforeItRestarts) {
  House house;
  const model::JobId job = house.submit(1000, 2);
  house.dispatcher->step();
  house.dispatcher->wait_for_replies();
  house.kill();
  ASSERT_TRUE(house.runtime.forget({job, 1, 1}).has_value());
  ASSERT_EQ(house.stored_raw(job).state, JobState::kStarting);
  house.machine.refuse = 1;
  house.runtime.obedient = false;
  house.open();
  house.settle();
  EXPECT_EQ(house.runtime.stopped, (std::vector<model::MemberKey>{{job, 1, 0}}));
  house.clock.advance(std::chrono::seconds(120));
  house.settle();
  EXPECT_EQ(house.stored(job).attempt, 1U) << "the first attempt lives";

  house.runtime.end({job, 1, 0}, 0, SIGKILL);
  house.settle();
  EXPECT_EQ(house.machine.held().size(), 0U);
  house.clock.advance(std::chrono::seconds(120));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  EXPECT_EQ(house.stored(job).attempt, 2U);
  EXPECT_EQ(house.stored(job).failures, 0U);
  EXPECT_FALSE(house.runtime.lives({job, 1, 0}));
  EXPECT_TRUE(house.runtime.lives({job, 2, 0}));
  EXPECT_TRUE(house.runtime.lives({job, 2, 1}));
}

TEST(Recovery, AMemberOfAnOlderAttemptIsEndedBeforeTheNextOneStarts) {
  House house;
  house.machine.refuse = 1;
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_EQ(house.stored(job).state, JobState::kQueued);
  house.kill();
  const agent::StartOrder start({job, 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(house.runtime.start(start).has_value());
  house.runtime.obedient = false;
  house.open();
  house.clock.advance(std::chrono::seconds(120));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kStarting);
  EXPECT_FALSE(house.runtime.lives({job, 2, 0}));
  house.runtime.end({job, 1, 0}, 0, SIGKILL);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  EXPECT_TRUE(house.runtime.lives({job, 2, 0}));
}

TEST(Recovery, AJobWhoseStartWaitsForAnOlderMemberCanBeCancelled) {
  House house;
  house.kill();
  // The store was put back: the number of this one is given again.
  const agent::StartOrder start({model::JobId(1), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(house.runtime.start(start).has_value());
  house.runtime.immortal = {start.key};
  house.open();
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_EQ(job, start.key.job);
  EXPECT_EQ(house.stored(job).state, JobState::kStarting);
  ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  house.settle();
  house.runtime.end(start.key, 0, SIGKILL);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kCancelled);
  EXPECT_EQ(house.dispatcher->entries_kept(), 0U);
}

// A process in an uninterruptible sleep does not even die of SIGKILL.
TEST(Recovery, AnUnkillableMemberDoesNotBlockTheStart) {
  House house;
  house.kill();
  const agent::StartOrder start({model::JobId(99), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(house.runtime.start(start).has_value());
  house.runtime.immortal = {start.key};
  house.open();
  const model::JobId job = house.submit(300);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  const std::size_t before = house.runtime.stopped.size();
  house.clock.advance(std::chrono::seconds(6));
  house.settle();
  EXPECT_GT(house.runtime.stopped.size(), before) << "it is tried again";
  house.runtime.immortal.clear();
  house.clock.advance(std::chrono::seconds(6));
  house.settle();
  EXPECT_EQ(house.runtime.find(start.key).error().code, ErrorCode::kNotFound);
}

TEST(Recovery, AFailedStopDoesNotBlockTheStart) {
  House house;
  house.kill();
  const agent::StartOrder start({model::JobId(99), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(house.runtime.start(start).has_value());
  house.runtime.fail_stops = 1;
  house.open();
  house.settle();
  EXPECT_TRUE(house.runtime.lives(start.key));
  house.clock.advance(std::chrono::seconds(6));
  house.settle();
  EXPECT_FALSE(house.runtime.lives(start.key));
}

TEST(Recovery, AMemberOfUnknownStateIsNotTakenForDead) {
  House house;
  const model::JobId job = house.submit(300);
  house.settle();
  house.kill();
  house.runtime.hidden = true;
  house.runtime.fail_finds = 1;
  house.open();
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  house.runtime.end_unseen({job, 1, 0}, 0);
  house.clock.advance(std::chrono::seconds(2));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kSucceeded);
}

TEST(Recovery, EndsOrphanedSlicesAndMembers) {
  House house;
  house.kill();
  const model::MemberKey stray{model::JobId(99), 1, 0};
  const agent::StartOrder start(stray, jobs::testing::spec(300));
  ASSERT_TRUE(house.runtime.start(start).has_value());
  ASSERT_TRUE(house.machine.grant(agent::GrantOrder{.key = stray}).has_value());
  house.open();
  house.settle();
  EXPECT_EQ(house.runtime.stopped, std::vector<model::MemberKey>{stray});
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Recovery, AJobThatWasBeingStoppedIsStoppedByTheNextOne) {
  House house;
  house.runtime.obedient = false;
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  house.dispatcher->step();
  house.kill();
  house.runtime.obedient = true;
  house.open();
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Recovery, QueuedJobsKeepTheirPlaces) {
  House house;
  const model::JobId first = house.submit(2000);
  const model::JobId second = house.submit(2000);
  const model::JobId third = house.submit(2000);
  house.settle();
  house.kill();
  house.open();
  house.runtime.end({first, 1, 0}, 0);
  house.settle();
  EXPECT_EQ(house.stored(second).state, JobState::kRunning);
  EXPECT_EQ(house.stored(third).state, JobState::kQueued);
}

}  // namespace
}  // namespace divvy::control
