// Owners who change their mind about a job that has not ended.
#include <gtest/gtest.h>

#include "jobs/queue.h"
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

Queue::Edit becomes(model::JobSpec wanted) {
  return [wanted = std::move(wanted)](const model::JobSpec&) -> Result<model::JobSpec> {
    return wanted;
  };
}

TEST(UpdateJob, AJobThatWaitsGetsAnotherSizeAndStarts) {
  Desk desk({}, fleet(1, 1));
  desk.submit(spec(600));
  desk.run();
  const JobId job = desk.submit(spec(1000));
  desk.run();
  ASSERT_EQ(desk.state(job), JobState::kQueued);
  (void)desk.queue().take_changes();
  ASSERT_TRUE(desk.queue().update(job, becomes(spec(400)), "ada", desk.now()));
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{job});
  EXPECT_EQ(desk.job(job).history.back().reason, "gpu 0.4 instead of 1, by ada");
  desk.run();
  EXPECT_EQ(desk.state(job), JobState::kRunning);
}

TEST(UpdateJob, AJobThatWaitsGoesToAnotherQueueWithItsRules) {
  Settings settings;
  settings.queues = {queue("a"), queue("b", 500, false)};
  settings.queues[1].highest_priority = 10;
  Desk desk(settings, fleet(1, 1));
  desk.submit_to("a", spec(1000));
  desk.run();
  const JobId job = desk.submit_to("a", spec(1000));
  model::JobSpec wanted = spec(1000);
  wanted.queue = "b";
  EXPECT_FALSE(desk.queue().update(job, becomes(wanted), "ada", desk.now())) << "too large";
  wanted = spec(300);
  wanted.queue = "b";
  wanted.priority = 11;
  EXPECT_FALSE(desk.queue().update(job, becomes(wanted), "ada", desk.now())) << "too urgent";
  wanted.priority = 10;
  ASSERT_TRUE(desk.queue().update(job, becomes(wanted), "ada", desk.now()));
  EXPECT_EQ(desk.job(job).spec.queue, "b");
  EXPECT_EQ(desk.job(job).history.back().reason,
            "queue b instead of a, gpu 0.3 instead of 1, priority 10 instead of 0, by ada");
  wanted.queue = "nowhere";
  EXPECT_EQ(desk.queue().update(job, becomes(wanted), "ada", desk.now()).error().code,
            ErrorCode::kNotFound);
}

TEST(UpdateJob, ARunningJobGetsAnotherTimeLimitAndNoOtherSize) {
  Desk desk({}, fleet(1, 1));
  const JobId job = desk.submit(spec(500));
  desk.run();
  model::JobSpec wanted = spec(500);
  wanted.time_limit = Seconds(60);
  wanted.priority = 3;
  ASSERT_TRUE(desk.queue().update(job, becomes(wanted), "ada", desk.now()));
  EXPECT_EQ(desk.job(job).history.back().reason,
            "priority 3 instead of 0, time_limit 1m instead of none, by ada");
  const Status refused = desk.queue().update(job, becomes(spec(600)), "ada", desk.now());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(desk.job(job).spec.time_limit, Seconds(60)) << "nothing of it was done";
  desk.wait(61);
  ASSERT_EQ(only<Stop>(desk.run()).size(), 1U);
  EXPECT_EQ(desk.job(job).stopping, model::StopReason::kTimeLimit);
}

TEST(UpdateJob, WithoutADifferenceChangesNothing) {
  Desk desk({}, fleet(1, 1));
  const JobId job = desk.submit(spec(500));
  const std::size_t steps = desk.job(job).history.size();
  ASSERT_TRUE(desk.queue().update(job, becomes(spec(500)), "ada", desk.now()));
  EXPECT_EQ(desk.job(job).history.size(), steps);
}

TEST(UpdateJob, OfOneThatHasEndedIsRefused) {
  Desk desk({}, fleet(1, 1));
  EXPECT_FALSE(desk.queue().update(JobId(99), becomes(spec(500)), "ada", desk.now()));
  EXPECT_FALSE(desk.queue().requeue(JobId(99), "ada", desk.now()));
}

TEST(Requeue, ARunningJobStopsAndWaitsAgainWithoutAFailure) {
  Desk desk({}, fleet(1, 1));
  const JobId job = desk.submit(spec(500));
  EXPECT_FALSE(desk.queue().requeue(job, "ada", desk.now())) << "it waits already";
  desk.run();
  ASSERT_TRUE(desk.queue().requeue(job, "ada", desk.now()));
  EXPECT_EQ(desk.job(job).history.back().reason, "requeued by ada");
  ASSERT_EQ(only<Stop>(desk.pass()).size(), 1U);
  desk.end(job, 0, 15);
  EXPECT_EQ(desk.state(job), JobState::kQueued);
  EXPECT_EQ(desk.job(job).failures, 0U);
  desk.run();
  EXPECT_EQ(desk.state(job), JobState::kRunning);
  EXPECT_EQ(desk.job(job).attempt, 2U);
}

TEST(UpdateJob, ObeysTheTimeLimitsOfTheQueue) {
  Settings settings;
  settings.queues = {queue("a"), queue("b")};
  settings.queues[1].time = {Seconds(600), Seconds(3'600)};
  Desk desk(settings);
  const JobId job = desk.submit_to("a", spec(1000));
  const auto update = [&desk, job](const std::string& to, std::optional<Seconds> limit) {
    model::JobSpec wanted = spec(1000);
    wanted.queue = to;
    wanted.time_limit = limit;
    const Status updated = desk.queue().update(job, becomes(wanted), "ada", desk.now());
    return updated ? "" : updated.error().message;
  };
  EXPECT_EQ(update("b", Seconds(7'200)), "time_limit: 2h is more than the 1h that queue b allows");
  EXPECT_EQ(update("b", std::nullopt), "");
  EXPECT_EQ(desk.job(job).spec.time_limit, Seconds(600)) << "it has the rules of its new queue";
  desk.run();
  ASSERT_EQ(desk.state(job), JobState::kRunning);
  EXPECT_EQ(update("b", Seconds(7'200)), "time_limit: 2h is more than the 1h that queue b allows");
  EXPECT_EQ(update("b", Seconds(3'600)), "");
  EXPECT_EQ(update("b", std::nullopt), "");
  EXPECT_EQ(desk.job(job).spec.time_limit, Seconds(600));
}

TEST(UpdateJob, KeepsATimeLimitThatIsOlderThanTheQueuesLimit) {
  Desk desk;
  const JobId job = desk.submit(spec(1000));
  Settings settings;
  settings.time.most = Seconds(60);
  ASSERT_TRUE(desk.queue().set_settings(settings));
  model::JobSpec wanted = desk.job(job).spec;
  wanted.priority = 5;
  ASSERT_TRUE(desk.queue().update(job, becomes(wanted), "ada", desk.now()));
  EXPECT_EQ(desk.job(job).spec.priority, 5);
  EXPECT_EQ(desk.job(job).spec.time_limit, std::nullopt);
}

}  // namespace
}  // namespace divvy::jobs
