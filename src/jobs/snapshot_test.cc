#include "jobs/snapshot.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using testing::Desk;
using testing::spec;

TEST(Snapshot, MakesAnotherQueueThatDecidesTheSame) {
  Desk desk({}, testing::fleet(1, 2));
  const auto running = desk.submit(spec(2'000));
  desk.run();
  const auto first = desk.submit(spec(1'000));
  const auto second = desk.submit(spec(1'000), "bob");
  const Snapshot snapshot = desk.queue().snapshot(10);
  ASSERT_EQ(snapshot.jobs.size(), 3U);
  EXPECT_EQ(snapshot.jobs.front().id, running);
  EXPECT_EQ(snapshot.left_out, 0U);

  const auto copy = Queue::create(snapshot.settings).value();
  ASSERT_TRUE(copy->set_fleet(snapshot.fleet));
  ASSERT_TRUE(copy->restore(snapshot.jobs, snapshot.usage, {}, desk.now()));
  EXPECT_EQ(copy->order(), desk.queue().order());
  EXPECT_TRUE(copy->pass(desk.now()).empty());
  copy->member_ended(running, 1, 0, {desk.now(), 0, 0, ""}, desk.now());
  EXPECT_EQ(testing::started(copy->pass(desk.now())), (std::vector{first, second}));
}

TEST(Snapshot, HasNoCommandAndNoEnvironment) {
  Desk desk;
  model::JobSpec secret = spec(1'000);
  secret.command = {"curl", "--header", "token"};
  secret.environment = {{"KEY", "token"}};
  desk.submit(secret);
  const Snapshot snapshot = desk.queue().snapshot(10);
  EXPECT_EQ(snapshot.jobs.front().spec.command, std::vector<std::string>{"snapshot"});
  EXPECT_TRUE(snapshot.jobs.front().spec.environment.empty());
}

TEST(Snapshot, LeavesOutWhoIsLastInLine) {
  Desk desk({}, testing::fleet(1, 1));
  const auto running = desk.submit(spec(1'000));
  desk.run();
  const auto first = desk.submit(spec(1'000));
  desk.submit(spec(1'000));
  desk.submit(spec(1'000));
  const Snapshot snapshot = desk.queue().snapshot(1);
  ASSERT_EQ(snapshot.jobs.size(), 2U);
  EXPECT_EQ(snapshot.jobs[0].id, running);
  EXPECT_EQ(snapshot.jobs[1].id, first);
  EXPECT_EQ(snapshot.left_out, 2U);
}

TEST(Snapshot, ForgetsDependenciesThatAreMetAndKeepsTheOthers) {
  Desk desk;
  const auto done = desk.submit(spec(1'000));
  desk.run();
  const auto open = desk.submit(spec(1'000));
  desk.run();
  model::JobSpec waits = spec(1'000);
  waits.after = {{done, model::DependencyKind::kEnded}, {open, model::DependencyKind::kEnded}};
  const auto waiting = desk.submit(waits);
  desk.end(done);
  const Snapshot snapshot = desk.queue().snapshot(10);
  ASSERT_EQ(snapshot.jobs.back().id, waiting);
  ASSERT_EQ(snapshot.jobs.back().spec.after.size(), 1U);
  EXPECT_EQ(snapshot.jobs.back().spec.after.front().job, open);
}

}  // namespace
}  // namespace divvy::jobs
