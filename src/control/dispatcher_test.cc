#include "control/dispatcher.h"

#include <gtest/gtest.h>

#include "control/testing.h"
#include "store/event_table.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::House;

TEST(Dispatcher, AJobIsWrittenDownStartedAndEnded) {
  House house;
  const model::JobId job = house.submit(300);
  EXPECT_EQ(house.stored(job).state, JobState::kQueued) << "before it is acknowledged";
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  ASSERT_EQ(house.runtime.started.size(), 1U);
  EXPECT_EQ(house.runtime.started[0].slice.environment.at("SLICE"), "job-1.1.0");
  house.runtime.end({job, 1, 0}, 0);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kSucceeded);
  EXPECT_TRUE(house.machine.held().empty());
  EXPECT_FALSE(house.dispatcher->find(job).has_value()) << "the store knows it now";
}

TEST(Dispatcher, AGangStartsWithOneSliceForEachMember) {
  House house;
  const model::JobId job = house.submit(1000, 2);
  house.settle();
  EXPECT_EQ(house.machine.held().size(), 2U);
  ASSERT_EQ(house.runtime.started.size(), 2U);
  EXPECT_EQ(house.runtime.started[1].hosts, (std::vector<std::string>{"127.0.0.1", "127.0.0.1"}));
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
}

TEST(Dispatcher, ARefusedGrantRequeuesTheJobAndHoldsNothing) {
  House house;
  house.machine.refuse = 1;
  const model::JobId job = house.submit(300);
  house.dispatcher->step();
  house.dispatcher->wait_for_replies();
  EXPECT_TRUE(house.machine.held().empty());
  EXPECT_TRUE(house.runtime.started.empty());
  house.clock.advance(std::chrono::seconds(60));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning) << "at the second try";
  EXPECT_EQ(house.stored(job).failures, 0U);
}

TEST(Dispatcher, AMemberThatCannotBeStartedIsAMemberThatFailed) {
  House house;
  house.runtime.fail_starts = 1;
  const model::JobId job = house.submit(300);
  house.settle();
  const model::Job ended = house.stored(job);
  EXPECT_EQ(ended.state, JobState::kFailed);
  ASSERT_TRUE(ended.members.at(0).end.has_value());
  EXPECT_EQ(ended.members[0].end->reason, "it could not be started: no process");
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Dispatcher, ACancelledJobIsEndedBeforeItsSliceIsFree) {
  House house;
  house.runtime.obedient = false;
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kStopping);
  EXPECT_EQ(house.machine.held().size(), 1U);
  EXPECT_EQ(house.runtime.stopped.size(), 1U);
  house.runtime.end({job, 1, 0}, 0, SIGTERM);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Dispatcher, RetriesAFailedStop) {
  House house;
  house.runtime.fail_stops = 2;
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  for (int tries = 0; tries < 2; ++tries) {
    house.settle();
    EXPECT_EQ(house.stored(job).state, JobState::kStopping);
    EXPECT_EQ(house.machine.held().size(), 1U);
    house.clock.advance(std::chrono::seconds(6));
  }
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Dispatcher, StopsAMemberOnceItsStateIsKnown) {
  House house;
  const model::JobId job = house.submit(300);
  house.settle();
  ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  house.runtime.fail_finds = 1;
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kStopping);
  EXPECT_TRUE(house.runtime.stopped.empty());
  house.clock.advance(std::chrono::seconds(6));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(house.machine.held().empty());
}

TEST(Dispatcher, DoesNotRestartAMemberOfUnknownState) {
  House house;
  house.runtime.fail_finds = 1;
  const model::JobId job = house.submit(300);
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kStarting);
  EXPECT_TRUE(house.runtime.started.empty());
  house.clock.advance(std::chrono::seconds(2));
  house.settle();
  EXPECT_EQ(house.stored(job).state, JobState::kRunning);
  EXPECT_EQ(house.runtime.started.size(), 1U);
}

// A release waits for the ledger's fsync, and for as long as the disk likes.
TEST(Dispatcher, AnswersAndStartsWhileAReleaseBlocks) {
  House house(Dispatcher::Drive::kThread);
  const model::JobId stuck = house.submit(300);
  house.await_state(stuck, JobState::kRunning);
  house.machine.releases.block({stuck, 1, 0});
  house.runtime.end({stuck, 1, 0}, 0);
  house.machine.releases.await_blocked(1);

  const model::JobId other = house.submit(300);
  house.await_state(other, JobState::kRunning);
  EXPECT_EQ(house.dispatcher->find(stuck)->state, JobState::kRunning) << "its slice is not free";
  EXPECT_FALSE(house.dispatcher->queues().empty());
  ASSERT_TRUE(house.dispatcher->cancel(other, "ada").has_value());
  house.await_state(other, JobState::kCancelled);

  house.machine.releases.let_go();
  house.await_state(stuck, JobState::kSucceeded);
}

TEST(Dispatcher, AnswersAndStartsWhileStopsBlock) {
  House house(Dispatcher::Drive::kThread);
  std::vector<model::JobId> stuck;
  for (int i = 0; i < 4; ++i) stuck.push_back(house.submit(100));
  for (const model::JobId job : stuck) {
    house.await_state(job, JobState::kRunning);
    house.runtime.stops.block({job, 1, 0});
    ASSERT_TRUE(house.dispatcher->cancel(job, "ada").has_value());
  }
  house.runtime.stops.await_blocked(stuck.size());

  const model::JobId other = house.submit(100);
  house.await_state(other, JobState::kRunning);
  house.runtime.end({other, 1, 0}, 0);
  house.await_state(other, JobState::kSucceeded);

  house.runtime.stops.let_go();
  for (const model::JobId job : stuck) house.await_state(job, JobState::kCancelled);
}

TEST(Dispatcher, KeepsNothingOfJobsThatHaveEnded) {
  House house;
  for (int round = 0; round < 50; ++round) {
    // Ended by itself, cancelled while it waits, cancelled while it runs, and not startable.
    const model::JobId first = house.submit(2000);
    const model::JobId second = house.submit(2000);
    house.settle();
    ASSERT_TRUE(house.dispatcher->cancel(second, "ada").has_value());
    house.runtime.end({first, 1, 0}, 0);
    house.settle();
    const model::JobId third = house.submit(1000, 2);
    house.settle();
    ASSERT_TRUE(house.dispatcher->cancel(third, "ada").has_value());
    house.settle();
    house.runtime.fail_starts = 1;
    house.submit(300);
    house.settle();
    ASSERT_EQ(house.dispatcher->entries_kept(), 0U) << round;
  }
}

TEST(Dispatcher, EveryStepIsAnEvent) {
  House house;
  const model::JobId job = house.submit(300);
  house.settle();
  house.runtime.end({job, 1, 0}, 3);
  house.settle();
  const auto events = *house.database->read(
      [](store::Connection& connection) { return store::EventTable(connection).list({}); });
  std::vector<std::string> states;
  for (const store::EventRow& event : events) states.push_back(event.state);
  EXPECT_EQ(states, (std::vector<std::string>{"queued", "starting", "running", "failed"}));
}

TEST(Dispatcher, WhatAMemberUsedIsKeptWithItsEnd) {
  House house;
  const model::JobId job = house.submit(500);
  house.settle();
  house.runtime.end({job, 1, 0}, 0, 0, {std::chrono::milliseconds(1'500), mib(64), {}});
  house.settle();
  const model::Job ended = house.stored(job);
  ASSERT_EQ(ended.state, JobState::kSucceeded);
  EXPECT_EQ(ended.members.at(0).end->use,
            (model::MemberUse{std::chrono::milliseconds(1'500), mib(64), gib(3)}))
      << "what the shepherd told, and what the slice saw before it was released";
  const auto sums = *house.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].cpu, 1'500U);
}

TEST(Dispatcher, KeepsTheShepherdsUsageOfMembersThatEndedWhileTheDaemonWasDown) {
  House house;
  const model::JobId job = house.submit(500);
  house.settle();
  house.kill();
  house.runtime.end_unseen({job, 1, 0}, 0, {std::chrono::milliseconds(1'500), mib(64), {}});
  house.open();
  house.settle();
  const model::Job ended = house.stored(job);
  ASSERT_EQ(ended.state, JobState::kSucceeded);
  EXPECT_EQ(ended.members.at(0).end->use.cpu, std::chrono::milliseconds(1'500));
  const auto sums = *house.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].cpu, 1'500U) << "booked once";
}

TEST(Dispatcher, BooksHeldAndUsedGpuTime) {
  House house;
  const model::JobId job = house.submit(500);
  house.settle();
  house.machine.active = {{{job, 1, 0}, 250}};
  for (int second = 0; second < 10; ++second) {
    house.clock.advance(std::chrono::seconds(1));
    house.dispatcher->step();
    house.dispatcher->wait_for_replies();
  }
  house.runtime.end({job, 1, 0}, 0);
  house.settle();
  const auto sums = *house.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].held, 5000U) << "half a GPU for ten seconds";
  EXPECT_EQ(sums[0].used, 2500U);
}

}  // namespace
}  // namespace divvy::control
