#include "control/retention.h"

#include <gtest/gtest.h>

#include "control/testing.h"

namespace divvy::control {
namespace {

using model::JobState;
using std::chrono::hours;
using testing::TestDaemon;

class RetentionTest : public ::testing::Test {
 protected:
  // A job that ran and ended, an hour before the next one.
  model::JobId ended() {
    const model::JobId job = daemon_.submit(300);
    daemon_.settle();
    daemon_.runtime.end({job, 1, 0}, 0);
    daemon_.settle();
    daemon_.clock.advance(hours(1));
    return job;
  }
  std::size_t step(Retention::Rules rules) {
    Retention retention(*daemon_.database, daemon_.agents, daemon_.clock, rules);
    return retention.step().value();
  }
  bool is_kept(model::JobId id) {
    return daemon_.database
        ->read([&](store::Connection& connection) { return store::JobTable(connection).find(id); })
        ->has_value();
  }
  bool has_output(model::JobId id) { return daemon_.runtime.find({id, 1, 0}).has_value(); }

  TestDaemon daemon_;
};

TEST_F(RetentionTest, RemovesJobsThatEndedLongAgoWithTheirOutput) {
  const model::JobId old = ended();
  const model::JobId young = ended();
  EXPECT_EQ(step({.keep = model::Seconds(0)}), 0U) << "for ever";
  EXPECT_EQ(step({.keep = hours(3)}), 0U);
  EXPECT_EQ(step({.keep = hours(1) + std::chrono::minutes(30)}), 1U);
  EXPECT_FALSE(is_kept(old));
  EXPECT_FALSE(has_output(old));
  EXPECT_TRUE(is_kept(young));
  EXPECT_TRUE(has_output(young));
  const auto usage = *daemon_.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  });
  EXPECT_EQ(step({.keep = hours(1) + std::chrono::minutes(30)}), 0U);
  EXPECT_EQ(usage, *daemon_.database->read([](store::Connection& connection) {
    return store::UsageTable(connection).report(store::UsageBy::kUser, {});
  })) << "what was used stays in the books";
}

TEST_F(RetentionTest, KeepsSoManyJobsAndLeavesThoseThatHaveNotEnded) {
  const model::JobId first = ended();
  const model::JobId second = ended();
  const model::JobId third = ended();
  const model::JobId lives = daemon_.submit(300);
  daemon_.settle();
  EXPECT_EQ(step({.most_jobs = 3}), 0U);
  EXPECT_EQ(step({.most_jobs = 1}), 2U);
  EXPECT_FALSE(is_kept(first));
  EXPECT_FALSE(is_kept(second));
  EXPECT_TRUE(is_kept(third));
  EXPECT_TRUE(is_kept(lives));
}

TEST_F(RetentionTest, KeepsAJobThatAnotherOneWaitsFor) {
  const model::JobId needed = ended();
  NewJob wanted(jobs::testing::spec(2000));
  wanted.owner = "ada";
  wanted.spec.after = {{needed, model::DependencyKind::kSucceeded}};
  const model::JobId full = daemon_.submit(2000);
  daemon_.settle();
  const model::JobId waits = daemon_.dispatcher->submit(wanted)->jobs.front().id;
  daemon_.settle();
  ASSERT_EQ(daemon_.stored(waits).state, JobState::kQueued);
  EXPECT_EQ(step({.keep = model::Seconds(1)}), 0U);
  EXPECT_TRUE(is_kept(needed));
  // A daemon that comes back asks the store what became of it.
  daemon_.kill();
  daemon_.open();
  daemon_.runtime.end({full, 1, 0}, 0);
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(waits).state, JobState::kRunning);
  daemon_.runtime.end({waits, 1, 0}, 0);
  daemon_.settle();
  daemon_.clock.advance(hours(1));
  EXPECT_EQ(step({.keep = model::Seconds(1)}), 3U);
}

TEST_F(RetentionTest, RemovesTheOldestOutputWhereThereIsTooMuch) {
  const model::JobId first = ended();
  const model::JobId second = ended();
  const model::JobId lives = daemon_.submit(300);
  daemon_.settle();
  EXPECT_EQ(step({.most_logs = mib(2)}), 0U) << "a megabyte each, and of one that runs none counts";
  EXPECT_EQ(step({.most_logs = mib(1)}), 1U);
  EXPECT_TRUE(is_kept(first));
  EXPECT_FALSE(has_output(first));
  EXPECT_TRUE(has_output(second));
  EXPECT_TRUE(has_output(lives));
}

TEST_F(RetentionTest, AJobWhoseOutputCannotBeRemovedStays) {
  const model::JobId first = ended();
  const model::JobId second = ended();
  daemon_.runtime.fail_forgets = 1;
  EXPECT_EQ(step({.keep = model::Seconds(1)}), 1U);
  EXPECT_TRUE(is_kept(first));
  EXPECT_FALSE(is_kept(second));
  EXPECT_EQ(step({.keep = model::Seconds(1)}), 1U) << "the next time";
  EXPECT_FALSE(is_kept(first));
}

}  // namespace
}  // namespace divvy::control
