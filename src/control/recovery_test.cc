// The daemon is killed and comes back: store, slices and members are compared.
#include <gtest/gtest.h>

#include "control/testing.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::TestDaemon;

TEST(Recovery, RunningJobsSurviveARestartOfTheDaemon) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  daemon.kill();
  daemon.open();
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  EXPECT_EQ(daemon.runtime.started.size(), 1U) << "not started twice";
  daemon.runtime.end({job, 1, 0}, 0);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kSucceeded);
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Recovery, ReportsTheExitCodeOfAJobThatEndedWhileTheDaemonWasDown) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  daemon.kill();
  daemon.runtime.end_unseen({job, 1, 0}, 7);
  daemon.open();
  daemon.settle();
  const model::Job ended = daemon.stored(job);
  EXPECT_EQ(ended.state, JobState::kFailed);
  ASSERT_TRUE(ended.members.at(0).end.has_value());
  EXPECT_EQ(ended.members[0].end->exit_code, 7);
  EXPECT_TRUE(daemon.machine.held().empty());
}

// Killed after each thing that a start does: written down, one slice, all slices, one member.
TEST(Recovery, CompletesAnInterruptedStartExactlyOnce) {
  for (const int slices : {0, 1, 2}) {
    for (const int members : {0, 1}) {
      if (members > slices) continue;
      TestDaemon daemon;
      const model::JobId job = daemon.submit(1000, 2);
      // The first half of a start, as if killed in the middle: the job is written as starting.
      daemon.dispatcher->step();
      daemon.dispatcher->wait_for_replies();
      daemon.kill();
      for (const std::uint32_t rank : {0U, 1U}) {
        if (static_cast<int>(rank) >= members) {
          ASSERT_TRUE(daemon.runtime.forget({job, 1, rank}).has_value());
        }
        if (static_cast<int>(rank) >= slices) {
          ASSERT_TRUE(daemon.machine.release({job, 1, rank}).has_value());
        }
      }
      daemon.runtime.started.clear();
      ASSERT_EQ(daemon.stored_raw(job).state, JobState::kStarting);
      daemon.open();
      daemon.settle();
      EXPECT_EQ(daemon.stored(job).state, JobState::kRunning) << slices << " " << members;
      EXPECT_EQ(daemon.runtime.started.size(), static_cast<std::size_t>(2 - members));
      EXPECT_EQ(daemon.machine.held().size(), 2U);
    }
  }
}

// Of the two members one was started when the daemon was killed, and the other one finds its place
// taken.
TEST(Recovery, StopsAPartlyStartedGangBeforeItRestarts) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(1000, 2);
  daemon.dispatcher->step();
  daemon.dispatcher->wait_for_replies();
  daemon.kill();
  ASSERT_TRUE(daemon.runtime.forget({job, 1, 1}).has_value());
  ASSERT_EQ(daemon.stored_raw(job).state, JobState::kStarting);
  daemon.machine.refuse = 1;
  daemon.runtime.obedient = false;
  daemon.open();
  daemon.settle();
  EXPECT_EQ(daemon.runtime.stopped, (std::vector<model::MemberKey>{{job, 1, 0}}));
  daemon.clock.advance(std::chrono::seconds(120));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).attempt, 1U) << "the first attempt lives";

  daemon.runtime.end({job, 1, 0}, 0, SIGKILL);
  daemon.settle();
  EXPECT_EQ(daemon.machine.held().size(), 0U);
  daemon.clock.advance(std::chrono::seconds(120));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  EXPECT_EQ(daemon.stored(job).attempt, 2U);
  EXPECT_EQ(daemon.stored(job).failures, 0U);
  EXPECT_FALSE(daemon.runtime.lives({job, 1, 0}));
  EXPECT_TRUE(daemon.runtime.lives({job, 2, 0}));
  EXPECT_TRUE(daemon.runtime.lives({job, 2, 1}));
}

TEST(Recovery, AMemberOfAnOlderAttemptIsEndedBeforeTheNextOneStarts) {
  TestDaemon daemon;
  daemon.machine.refuse = 1;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_EQ(daemon.stored(job).state, JobState::kQueued);
  daemon.kill();
  const agent::StartOrder start({job, 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(daemon.runtime.start(start).has_value());
  daemon.runtime.obedient = false;
  daemon.open();
  daemon.clock.advance(std::chrono::seconds(120));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kStarting);
  EXPECT_FALSE(daemon.runtime.lives({job, 2, 0}));
  daemon.runtime.end({job, 1, 0}, 0, SIGKILL);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  EXPECT_TRUE(daemon.runtime.lives({job, 2, 0}));
}

TEST(Recovery, AJobWhoseStartWaitsForAnOlderMemberCanBeCancelled) {
  TestDaemon daemon;
  daemon.kill();
  // The store was put back: the number of this one is given again.
  const agent::StartOrder start({model::JobId(1), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(daemon.runtime.start(start).has_value());
  daemon.runtime.immortal = {start.key};
  daemon.open();
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_EQ(job, start.key.job);
  EXPECT_EQ(daemon.stored(job).state, JobState::kStarting);
  ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  daemon.settle();
  daemon.runtime.end(start.key, 0, SIGKILL);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kCancelled);
  EXPECT_EQ(daemon.dispatcher->entries_kept(), 0U);
}

// A process in an uninterruptible sleep does not even die of SIGKILL.
TEST(Recovery, AnUnkillableMemberDoesNotBlockTheStart) {
  TestDaemon daemon;
  daemon.kill();
  const agent::StartOrder start({model::JobId(99), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(daemon.runtime.start(start).has_value());
  daemon.runtime.immortal = {start.key};
  daemon.open();
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  const std::size_t before = daemon.runtime.stopped.size();
  daemon.clock.advance(std::chrono::seconds(6));
  daemon.settle();
  EXPECT_GT(daemon.runtime.stopped.size(), before) << "it is tried again";
  daemon.runtime.immortal.clear();
  daemon.clock.advance(std::chrono::seconds(6));
  daemon.settle();
  EXPECT_EQ(daemon.runtime.find(start.key).error().code, ErrorCode::kNotFound);
}

TEST(Recovery, AFailedStopDoesNotBlockTheStart) {
  TestDaemon daemon;
  daemon.kill();
  const agent::StartOrder start({model::JobId(99), 1, 0}, jobs::testing::spec(300));
  ASSERT_TRUE(daemon.runtime.start(start).has_value());
  daemon.runtime.fail_stops = 1;
  daemon.open();
  daemon.settle();
  EXPECT_TRUE(daemon.runtime.lives(start.key));
  daemon.clock.advance(std::chrono::seconds(6));
  daemon.settle();
  EXPECT_FALSE(daemon.runtime.lives(start.key));
}

TEST(Recovery, AMemberOfUnknownStateIsNotTakenForDead) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  daemon.kill();
  daemon.runtime.hidden = true;
  daemon.runtime.fail_finds = 1;
  daemon.open();
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  daemon.runtime.end_unseen({job, 1, 0}, 0);
  daemon.clock.advance(std::chrono::seconds(2));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kSucceeded);
}

TEST(Recovery, EndsOrphanedSlicesAndMembers) {
  TestDaemon daemon;
  daemon.kill();
  const model::MemberKey stray{model::JobId(99), 1, 0};
  const agent::StartOrder start(stray, jobs::testing::spec(300));
  ASSERT_TRUE(daemon.runtime.start(start).has_value());
  ASSERT_TRUE(daemon.machine.grant(agent::GrantOrder{.key = stray}).has_value());
  daemon.open();
  daemon.settle();
  EXPECT_EQ(daemon.runtime.stopped, std::vector<model::MemberKey>{stray});
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Recovery, AJobThatWasBeingStoppedIsStoppedByTheNextOne) {
  TestDaemon daemon;
  daemon.runtime.obedient = false;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  daemon.dispatcher->step();
  daemon.kill();
  daemon.runtime.obedient = true;
  daemon.open();
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Recovery, QueuedJobsKeepTheirPlaces) {
  TestDaemon daemon;
  const model::JobId first = daemon.submit(2000);
  const model::JobId second = daemon.submit(2000);
  const model::JobId third = daemon.submit(2000);
  daemon.settle();
  daemon.kill();
  daemon.open();
  daemon.runtime.end({first, 1, 0}, 0);
  daemon.settle();
  EXPECT_EQ(daemon.stored(second).state, JobState::kRunning);
  EXPECT_EQ(daemon.stored(third).state, JobState::kQueued);
}

}  // namespace
}  // namespace divvy::control
