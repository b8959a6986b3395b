#include "jobs/tally.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using testing::Desk;
using testing::fleet;
using testing::queue;
using testing::spec;

const QueueLoad& at(const Load& load, std::string_view path) {
  const auto found = std::ranges::find(load.queues, path, [](const QueueLoad& queue) {
    return std::string_view(queue.report.path);
  });
  DIVVY_CHECK(found != load.queues.end(), "no queue {}", path);
  return *found;
}

const UserLoad& of(const Load& load, std::string_view name) {
  const auto found = std::ranges::find(load.users, name, &UserLoad::name);
  DIVVY_CHECK(found != load.users.end(), "no user {}", name);
  return *found;
}

TEST(Load, CountsAJobInItsQueueAndInThoseAbove) {
  Settings settings;
  settings.queues = {queue("research", 1000), queue("research/vision", 500)};
  Desk desk(settings, fleet(1, 1));
  const JobId first = desk.submit_to("research/vision", spec(1000));
  desk.run();
  const WallTime since = desk.now();
  desk.submit_to("research/vision", spec(1000));
  desk.wait(40);
  desk.submit_to("research", spec(1000), "ben");
  const Load load = desk.queue().load(desk.now());
  EXPECT_EQ(load.jobs[JobState::kRunning], 1U);
  EXPECT_EQ(load.jobs[JobState::kQueued], 2U);
  EXPECT_EQ(at(load, "research/vision").jobs[JobState::kQueued], 1U);
  EXPECT_EQ(at(load, "research").jobs[JobState::kQueued], 2U);
  EXPECT_EQ(at(load, "default").jobs[JobState::kQueued], 0U);
  EXPECT_EQ(at(load, "research").oldest, since);
  EXPECT_EQ(at(load, "default").oldest, std::nullopt);
  EXPECT_EQ(at(load, "research/vision").report.held.share, 1000U);
  EXPECT_EQ(at(load, "research/vision").report.borrowed, 500U);
  EXPECT_EQ(of(load, "ada").held.share, 1000U);
  EXPECT_EQ(of(load, "ada").jobs[JobState::kRunning], 1U);
  EXPECT_EQ(of(load, "ben").jobs[JobState::kQueued], 1U);
  desk.end(first, 3);
  const Load after = desk.queue().load(desk.now());
  EXPECT_EQ(after.ended[JobState::kFailed], 1U);
  EXPECT_EQ(at(after, "research").past.ended[JobState::kFailed], 1U);
  EXPECT_EQ(at(after, "default").past.ended[JobState::kFailed], 0U);
  EXPECT_EQ(of(after, "ada").ended[JobState::kFailed], 1U);
  EXPECT_EQ(of(after, "ada").jobs[JobState::kRunning], 0U);
}

TEST(Load, CountsDoNotGoBackWhenJobsAreForgottenAndSettingsChange) {
  Desk desk;
  const JobId id = desk.submit(spec(500));
  desk.run();
  desk.end(id);
  desk.queue().forget(id);
  Settings settings;
  settings.queues = {queue("other")};
  ASSERT_TRUE(desk.queue().set_settings(settings).has_value());
  const Load load = desk.queue().load(desk.now());
  EXPECT_EQ(load.ended[JobState::kSucceeded], 1U);
  EXPECT_EQ(at(load, "default").past.ended[JobState::kSucceeded], 1U);
  EXPECT_EQ(of(load, "ada").ended[JobState::kSucceeded], 1U);
}

TEST(Load, CountsTheWaitOfAJobOnceHoweverOftenItStarts) {
  Desk desk({}, fleet(1, 1));
  model::JobSpec retried = spec(1000);
  retried.retry = {1, Seconds(5), Seconds(5)};
  const JobId id = desk.submit(retried);
  desk.wait(30);
  desk.run();
  desk.end(id, 1);
  desk.wait(100);
  desk.run();
  ASSERT_EQ(desk.state(id), JobState::kRunning);
  EXPECT_EQ(desk.job(id).attempt, 2U);
  WaitCounts expected;
  expected.add(std::chrono::seconds(30));
  EXPECT_EQ(at(desk.queue().load(desk.now()), "default").past.waits, expected);
}

TEST(Load, BoundsTheNumberOfUsers) {
  Desk desk;
  for (std::size_t i = 0; i < Tally::kMostUsers + 20; ++i) {
    desk.submit(spec(4000), "user" + std::to_string(i));
  }
  const Load load = desk.queue().load(desk.now());
  EXPECT_EQ(load.users.size(), Tally::kMostUsers + 1);
  EXPECT_EQ(of(load, Tally::kOthers).jobs[JobState::kQueued], 20U);
  EXPECT_EQ(of(load, "user0").jobs[JobState::kQueued], 1U);
}

TEST(Load, BoundsTheNumberOfQueues) {
  Settings settings;
  for (std::size_t i = 0; i < Load::kMostQueues + 5; ++i) {
    settings.queues.push_back(queue("q" + std::to_string(i)));
  }
  Desk desk(settings);
  const Load load = desk.queue().load(desk.now());
  EXPECT_EQ(load.queues.size(), Load::kMostQueues);
  EXPECT_EQ(load.all_queues, Load::kMostQueues + 6);  // and `default`
}

TEST(WaitCounts, PutAWaitIntoTheFirstBucketThatHoldsIt) {
  WaitCounts counts;
  counts.add(std::chrono::seconds(1));
  counts.add(std::chrono::milliseconds(1001));
  counts.add(std::chrono::hours(24 * 30));
  counts.add(std::chrono::seconds(-5));  // the clock was set back
  EXPECT_EQ(counts.buckets[0], 2U);
  EXPECT_EQ(counts.buckets[1], 1U);
  EXPECT_EQ(counts.buckets.back(), 1U);
  EXPECT_DOUBLE_EQ(counts.sum_s, 2.001 + 24 * 30 * 3600);
}

}  // namespace
}  // namespace divvy::jobs
