// Who makes way for whom.
#include <gtest/gtest.h>

#include "jobs/queue.h"
#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using model::StopReason;
using testing::Desk;
using testing::fleet;
using testing::only;
using testing::queue;
using testing::spec;
using testing::started;

model::JobSpec with_priority(std::uint32_t share, std::int32_t priority) {
  model::JobSpec job = spec(share);
  job.priority = priority;
  return job;
}

Settings two_queues() {
  Settings settings;
  settings.queues = {queue("a", 2000), queue("b", 2000)};
  return settings;
}

TEST(Preemption, AHigherPriorityTakesThePlaceOfALowerOneInItsQueue) {
  Desk desk({}, fleet(1, 2));
  const JobId low = desk.submit(with_priority(1000, 0));
  const JobId middle = desk.submit(with_priority(1000, 5));
  desk.run();
  model::JobSpec urgent = with_priority(1000, 10);
  urgent.name = "urgent";
  const JobId high = desk.submit(urgent);
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, low);
  EXPECT_EQ(stops[0].reason, StopReason::kPreempted);
  EXPECT_EQ(stops[0].text, "preempted by urgent (3)");
  const WaitReport report = desk.queue().explain(high, desk.now());
  EXPECT_EQ(report.text, "1 job makes way for it");
  EXPECT_EQ(report.starts, desk.now() + Seconds(30));
  EXPECT_TRUE(desk.run().empty()) << "nobody else is stopped while it leaves";
  desk.end(low, 0, 15);
  EXPECT_EQ(desk.state(low), JobState::kQueued);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
  EXPECT_EQ(desk.state(middle), JobState::kRunning);
}

// However soon they go: what is free of it beside them is kept, too.
TEST(Preemption, ReservesThePlaceWhileVictimsStop) {
  for (const Seconds grace : {Seconds(0), Seconds(30)}) {
    Desk desk({}, fleet(1, 2));
    model::JobSpec leaves = with_priority(1000, 0);
    leaves.grace = grace;
    const JobId low = desk.submit(leaves);
    desk.run();
    const JobId high = desk.submit(with_priority(2000, 10));
    model::JobSpec quick = with_priority(1000, 0);
    quick.expected = Seconds(1);
    const JobId small = desk.submit(quick);
    EXPECT_EQ(only<Stop>(desk.run()).size(), 1u);
    EXPECT_EQ(desk.state(small), JobState::kQueued);
    desk.wait(grace.count() + 5);
    EXPECT_TRUE(desk.run().empty()) << "it takes longer than it was given";
    desk.end(low, 0, 9);
    EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
  }
}

// Limits are kept like places: who is gone first does not come back in the meantime.
TEST(Preemption, ReservesTheFreedQuotaForThePreemptor) {
  Settings settings;
  settings.queues = {queue("a", 2000, false)};
  Desk desk(settings, fleet(1, 8));
  model::JobSpec low = with_priority(1000, 0);
  low.queue = "a";
  const JobId slow = desk.submit(low);
  const JobId quick = desk.submit(low);
  desk.run();
  model::JobSpec urgent = with_priority(2000, 10);
  urgent.queue = "a";
  const JobId high = desk.submit(urgent);
  EXPECT_EQ(only<Stop>(desk.run()).size(), 2u);
  desk.end(quick, 0, 15);
  EXPECT_TRUE(started(desk.run()).empty());
  EXPECT_EQ(desk.queue().explain(quick, desk.now()).kind, WaitKind::kQuota);
  desk.end(slow, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
}

// Nor where the rest of a GPU is held by somebody who stays.
TEST(Preemption, ReservesAPartOfAGpuWhileVictimsStop) {
  Desk desk({}, fleet(1, 2));
  desk.submit(with_priority(500, 20));
  desk.run();
  model::JobSpec leaves = with_priority(1000, 0);
  leaves.grace = Seconds(0);
  const JobId low = desk.submit(leaves);
  desk.run();
  const JobId high = desk.submit(with_priority(1500, 10));
  const JobId small = desk.submit(with_priority(500, 0));
  EXPECT_EQ(only<Stop>(desk.run()).size(), 1u);
  EXPECT_EQ(desk.state(small), JobState::kQueued);
  desk.end(low, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
}

TEST(Preemption, ReservesTheFreedPlaceForThePreemptor) {
  Desk desk({}, fleet(1, 1));
  const JobId low = desk.submit(with_priority(1000, 0));
  desk.run();
  const JobId high = desk.submit(with_priority(1000, 10), "bob");
  desk.run();
  // A newcomer that goes before it by fair share of the users does not get the place.
  const JobId newcomer = desk.submit(with_priority(1000, 10), "cy");
  desk.end(low, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
  EXPECT_EQ(desk.state(newcomer), JobState::kQueued);
}

TEST(Preemption, SparesEqualPrioritiesAndOtherQueues) {
  Settings settings;
  settings.queues = {queue("a"), queue("b")};
  Desk desk(settings, fleet(1, 2));
  desk.submit_to("a", with_priority(1000, 5));
  desk.submit_to("b", with_priority(1000, 0));
  desk.run();
  desk.submit_to("a", with_priority(1000, 5));
  EXPECT_TRUE(desk.run().empty());
}

TEST(Preemption, SparesNonPreemptibleJobsAndThoseWithinTheirMinimumRun) {
  Desk desk({}, fleet(1, 2));
  model::JobSpec firm = spec(1000);
  firm.preemptible = false;
  desk.submit(firm);
  model::JobSpec fresh = spec(1000);
  fresh.minimum_run = Seconds(60);
  const JobId young = desk.submit(fresh);
  desk.run();
  desk.submit(with_priority(1000, 10));
  EXPECT_TRUE(desk.run().empty());
  EXPECT_EQ(desk.queue().next_pass(desk.now()), desk.now() + Seconds(60));
  desk.wait(60);
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, young);
}

TEST(Preemption, CanBeTurnedOff) {
  Settings settings;
  settings.preemption = false;
  Desk desk(settings, fleet(1, 1));
  desk.submit(with_priority(1000, 0));
  desk.run();
  desk.submit(with_priority(1000, 10));
  EXPECT_TRUE(desk.run().empty());
}

TEST(Preemption, AGangIsEvictedAsAWholeAndOnlyIfThatHelps) {
  Desk desk({}, fleet(2, 2));
  model::JobSpec gang = spec(1000, 4);
  const JobId low = desk.submit(gang);
  desk.run();
  desk.submit(with_priority(3000, 10));
  EXPECT_TRUE(desk.run().empty()) << "no node has three GPUs";
  const JobId high = desk.submit(with_priority(2000, 9));
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, low);
  desk.end(low, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
}

TEST(Preemption, MakesRoomInAFullQuotaToo) {
  Settings settings;
  settings.queues = {queue("a", 2000, false)};
  Desk desk(settings, fleet(1, 8));
  desk.submit_to("a", with_priority(1000, 1));
  const JobId low = desk.submit_to("a", with_priority(1000, 0));
  desk.run();
  const JobId high = desk.submit_to("a", with_priority(1000, 10));
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, low);
  desk.end(low, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
}

TEST(Preemption, SparesOthersWhereWhoLeavesAnyhowFreesTheQuota) {
  Settings settings;
  settings.queues = {queue("a", 2000, false), queue("b")};
  for (const bool of_this_quota : {true, false}) {
    Desk desk(settings, fleet(1, 8));
    desk.submit_to("a", with_priority(1000, 0));
    const JobId same = desk.submit_to("a", with_priority(1000, 1));
    const JobId other = desk.submit_to("b", with_priority(1000, 0));
    desk.run();
    const JobId leaves = of_this_quota ? same : other;
    ASSERT_TRUE(desk.queue().cancel(leaves, "ada", desk.now()).has_value());
    ASSERT_EQ(only<Stop>(desk.run()).size(), 1u);
    const JobId high = desk.submit_to("a", with_priority(1000, 10));
    EXPECT_EQ(only<Stop>(desk.run()).size(), of_this_quota ? 0u : 1u);
    if (!of_this_quota) continue;
    desk.end(leaves, 0, 15);
    EXPECT_EQ(started(desk.run()), std::vector<JobId>{high});
  }
}

TEST(Preemption, ReleasesTheClaimOfACancelledPreemptor) {
  Desk desk({}, fleet(1, 1));
  const JobId low = desk.submit(with_priority(1000, 0));
  desk.run();
  const JobId high = desk.submit(with_priority(1000, 10));
  desk.run();
  ASSERT_TRUE(desk.queue().cancel(high, "ada", desk.now()).has_value());
  desk.end(low, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{low}) << "it may start again at once";
}

TEST(Preemption, IsNotRepeatedAfterARestart) {
  Desk desk({}, fleet(1, 2));
  const JobId one = desk.submit(with_priority(1000, 0));
  const JobId two = desk.submit(with_priority(1000, 0));
  desk.run();
  const JobId high = desk.submit(with_priority(1000, 10));
  ASSERT_EQ(only<Stop>(desk.run()).size(), 1u);
  Desk again({}, fleet(1, 2));
  ASSERT_TRUE(again.queue()
                  .restore({desk.job(one), desk.job(two), desk.job(high)}, {}, {}, again.now())
                  .has_value());
  EXPECT_EQ(only<Stop>(again.pass()).size(), 1u) << "the one that was being stopped, once more";
  EXPECT_TRUE(again.pass().empty());
}

TEST(Reclaim, AQueueGetsItsQuotaBackFromWhoBorrowedIt) {
  Desk desk(two_queues(), fleet(1, 4));
  for (int i = 0; i < 4; ++i) desk.submit_to("b", spec(1000));
  EXPECT_EQ(desk.run().size(), 4u) << "it borrows what nobody uses";
  const JobId owner = desk.submit_to("a", with_priority(2000, -100));
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].reason, StopReason::kReclaimed);
  EXPECT_EQ(stops[0].text, "its GPU goes back to queue a for job 5");
  for (const Stop& stop : stops) desk.end(stop.job, 0, 15);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{owner});
  EXPECT_TRUE(desk.run().empty()) << "who gave back does not take it again";
}

TEST(Reclaim, NobodyGivesBackMoreThanItBorrowed) {
  Desk desk(two_queues(), fleet(1, 4));
  for (int i = 0; i < 3; ++i) desk.submit_to("b", spec(1000));
  desk.run();
  desk.submit_to("a", spec(2000));
  const auto stops = only<Stop>(desk.run());
  EXPECT_EQ(stops.size(), 1u) << "one of the three was borrowed, one GPU was free";
}

TEST(Reclaim, AQueueBeyondItsQuotaReclaimsNothing) {
  Desk desk(two_queues(), fleet(1, 4));
  for (int i = 0; i < 4; ++i) desk.submit_to("b", spec(1000));
  desk.run();
  desk.submit_to("a", spec(3000));
  EXPECT_TRUE(desk.run().empty());
}

TEST(Reclaim, AQueueWithoutQuotaBorrowsEverything) {
  Settings settings;
  settings.queues = {queue("a", 1000)};
  Desk desk(settings, fleet(1, 1));
  const JobId borrower = desk.submit(with_priority(1000, 1000));
  desk.run();
  desk.submit_to("a", spec(1000));
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].job, borrower);
}

}  // namespace
}  // namespace divvy::jobs
