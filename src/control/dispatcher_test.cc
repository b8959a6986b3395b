#include "control/dispatcher.h"

#include <gtest/gtest.h>

#include "control/testing.h"
#include "store/event_table.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::TestDaemon;

TEST(Dispatcher, AJobIsWrittenDownStartedAndEnded) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  EXPECT_EQ(daemon.stored(job).state, JobState::kQueued) << "before it is acknowledged";
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  ASSERT_EQ(daemon.runtime.started.size(), 1U);
  EXPECT_EQ(daemon.runtime.started[0].slice.environment.at("SLICE"), "job-1.1.0");
  daemon.runtime.end({job, 1, 0}, 0);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kSucceeded);
  EXPECT_TRUE(daemon.machine.held().empty());
  EXPECT_FALSE(daemon.dispatcher->find(job).has_value()) << "the store knows it now";
}

TEST(Dispatcher, AGangStartsWithOneSliceForEachMember) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(1000, 2);
  daemon.settle();
  EXPECT_EQ(daemon.machine.held().size(), 2U);
  ASSERT_EQ(daemon.runtime.started.size(), 2U);
  EXPECT_EQ(daemon.runtime.started[1].hosts, (std::vector<std::string>{"127.0.0.1", "127.0.0.1"}));
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
}

TEST(Dispatcher, ARefusedGrantRequeuesTheJobAndHoldsNothing) {
  TestDaemon daemon;
  daemon.machine.refuse = 1;
  const model::JobId job = daemon.submit(300);
  daemon.dispatcher->step();
  daemon.dispatcher->wait_for_replies();
  EXPECT_TRUE(daemon.machine.held().empty());
  EXPECT_TRUE(daemon.runtime.started.empty());
  daemon.clock.advance(std::chrono::seconds(60));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning) << "at the second try";
  EXPECT_EQ(daemon.stored(job).failures, 0U);
}

TEST(Dispatcher, AMemberThatCannotBeStartedIsAMemberThatFailed) {
  TestDaemon daemon;
  daemon.runtime.fail_starts = 1;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  const model::Job ended = daemon.stored(job);
  EXPECT_EQ(ended.state, JobState::kFailed);
  ASSERT_TRUE(ended.members.at(0).end.has_value());
  EXPECT_EQ(ended.members[0].end->reason, "it could not be started: no process");
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Dispatcher, ACancelledJobIsEndedBeforeItsSliceIsFree) {
  TestDaemon daemon;
  daemon.runtime.obedient = false;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kStopping);
  EXPECT_EQ(daemon.machine.held().size(), 1U);
  EXPECT_EQ(daemon.runtime.stopped.size(), 1U);
  daemon.runtime.end({job, 1, 0}, 0, SIGTERM);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Dispatcher, RetriesAFailedStop) {
  TestDaemon daemon;
  daemon.runtime.fail_stops = 2;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  for (int tries = 0; tries < 2; ++tries) {
    daemon.settle();
    EXPECT_EQ(daemon.stored(job).state, JobState::kStopping);
    EXPECT_EQ(daemon.machine.held().size(), 1U);
    daemon.clock.advance(std::chrono::seconds(6));
  }
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Dispatcher, StopsAMemberOnceItsStateIsKnown) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  daemon.runtime.fail_finds = 1;
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kStopping);
  EXPECT_TRUE(daemon.runtime.stopped.empty());
  daemon.clock.advance(std::chrono::seconds(6));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(daemon.machine.held().empty());
}

TEST(Dispatcher, DoesNotRestartAMemberOfUnknownState) {
  TestDaemon daemon;
  daemon.runtime.fail_finds = 1;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kStarting);
  EXPECT_TRUE(daemon.runtime.started.empty());
  daemon.clock.advance(std::chrono::seconds(2));
  daemon.settle();
  EXPECT_EQ(daemon.stored(job).state, JobState::kRunning);
  EXPECT_EQ(daemon.runtime.started.size(), 1U);
}

// A release waits for the ledger's fsync, and for as long as the disk likes.
TEST(Dispatcher, AnswersAndStartsWhileAReleaseBlocks) {
  TestDaemon daemon(Dispatcher::Drive::kThread);
  const model::JobId stuck = daemon.submit(300);
  daemon.await_state(stuck, JobState::kRunning);
  daemon.machine.releases.block({stuck, 1, 0});
  daemon.runtime.end({stuck, 1, 0}, 0);
  daemon.machine.releases.await_blocked(1);

  const model::JobId other = daemon.submit(300);
  daemon.await_state(other, JobState::kRunning);
  EXPECT_EQ(daemon.dispatcher->find(stuck)->state, JobState::kRunning) << "its slice is not free";
  EXPECT_FALSE(daemon.dispatcher->queues().empty());
  ASSERT_TRUE(daemon.dispatcher->cancel(other, "ada").has_value());
  daemon.await_state(other, JobState::kCancelled);

  daemon.machine.releases.let_go();
  daemon.await_state(stuck, JobState::kSucceeded);
}

TEST(Dispatcher, AnswersAndStartsWhileStopsBlock) {
  TestDaemon daemon(Dispatcher::Drive::kThread);
  std::vector<model::JobId> stuck;
  for (int i = 0; i < 4; ++i) stuck.push_back(daemon.submit(100));
  for (const model::JobId job : stuck) {
    daemon.await_state(job, JobState::kRunning);
    daemon.runtime.stops.block({job, 1, 0});
    ASSERT_TRUE(daemon.dispatcher->cancel(job, "ada").has_value());
  }
  daemon.runtime.stops.await_blocked(stuck.size());

  const model::JobId other = daemon.submit(100);
  daemon.await_state(other, JobState::kRunning);
  daemon.runtime.end({other, 1, 0}, 0);
  daemon.await_state(other, JobState::kSucceeded);

  daemon.runtime.stops.let_go();
  for (const model::JobId job : stuck) daemon.await_state(job, JobState::kCancelled);
}

TEST(Dispatcher, KeepsNothingOfJobsThatHaveEnded) {
  TestDaemon daemon;
  for (int round = 0; round < 50; ++round) {
    // Ended by itself, cancelled while it waits, cancelled while it runs, and not startable.
    const model::JobId first = daemon.submit(2000);
    const model::JobId second = daemon.submit(2000);
    daemon.settle();
    ASSERT_TRUE(daemon.dispatcher->cancel(second, "ada").has_value());
    daemon.runtime.end({first, 1, 0}, 0);
    daemon.settle();
    const model::JobId third = daemon.submit(1000, 2);
    daemon.settle();
    ASSERT_TRUE(daemon.dispatcher->cancel(third, "ada").has_value());
    daemon.settle();
    daemon.runtime.fail_starts = 1;
    daemon.submit(300);
    daemon.settle();
    ASSERT_EQ(daemon.dispatcher->entries_kept(), 0U) << round;
  }
}

TEST(Dispatcher, EveryStepIsAnEvent) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(300);
  daemon.settle();
  daemon.runtime.end({job, 1, 0}, 3);
  daemon.settle();
  const auto events = *daemon.database->read(
      [](store::Connection& connection) { return store::EventTable(connection).list({}); });
  std::vector<std::string> states;
  for (const store::EventRow& event : events) states.push_back(event.state);
  EXPECT_EQ(states, (std::vector<std::string>{"queued", "starting", "running", "failed"}));
}

TEST(Dispatcher, WhatAMemberUsedIsKeptWithItsEnd) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(500);
  daemon.settle();
  daemon.runtime.end({job, 1, 0}, 0, 0, {std::chrono::milliseconds(1'500), mib(64), {}});
  daemon.settle();
  const model::Job ended = daemon.stored(job);
  ASSERT_EQ(ended.state, JobState::kSucceeded);
  EXPECT_EQ(ended.members.at(0).end->use,
            (model::MemberUse{std::chrono::milliseconds(1'500), mib(64), gib(3)}))
      << "what the shepherd told, and what the slice saw before it was released";
  const auto sums = *daemon.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].cpu, 1'500U);
}

TEST(Dispatcher, KeepsTheShepherdsUsageOfMembersThatEndedWhileTheDaemonWasDown) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(500);
  daemon.settle();
  daemon.kill();
  daemon.runtime.end_unseen({job, 1, 0}, 0, {std::chrono::milliseconds(1'500), mib(64), {}});
  daemon.open();
  daemon.settle();
  const model::Job ended = daemon.stored(job);
  ASSERT_EQ(ended.state, JobState::kSucceeded);
  EXPECT_EQ(ended.members.at(0).end->use.cpu, std::chrono::milliseconds(1'500));
  const auto sums = *daemon.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].cpu, 1'500U) << "booked once";
}

TEST(Dispatcher, BooksHeldAndUsedGpuTime) {
  TestDaemon daemon;
  const model::JobId job = daemon.submit(500);
  daemon.settle();
  daemon.machine.active = {{{job, 1, 0}, 250}};
  for (int second = 0; second < 10; ++second) {
    daemon.clock.advance(std::chrono::seconds(1));
    daemon.dispatcher->step();
    daemon.dispatcher->wait_for_replies();
  }
  daemon.runtime.end({job, 1, 0}, 0);
  daemon.settle();
  const auto sums = *daemon.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].held, 5000U) << "half a GPU for ten seconds";
  EXPECT_EQ(sums[0].used, 2500U);
}

}  // namespace
}  // namespace divvy::control
