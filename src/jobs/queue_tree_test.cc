#include "jobs/queue_tree.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using testing::queue;

Held gpus(std::uint64_t count) { return {count * 1000, 0, 1}; }

TEST(QueueTree, QueuesAboveAreThereToo) {
  Settings settings;
  settings.queues = {queue("research/vision")};
  QueueTree tree(settings);
  ASSERT_TRUE(tree.find("research").has_value());
  EXPECT_EQ(tree.parent(*tree.find("research/vision")), tree.find("research"));
  EXPECT_TRUE(tree.find("default").has_value());
  EXPECT_FALSE(tree.find("").has_value());
  EXPECT_FALSE(tree.find("vision").has_value());
  EXPECT_EQ(tree.similar("reserch"), "research");
}

TEST(QueueTree, WhatIsHeldCountsInEveryQueueAbove) {
  Settings settings;
  settings.queues = {queue("a/b"), queue("a/c")};
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  tree.take(*tree.find("a/b"), ada, gpus(2));
  tree.take(*tree.find("a/c"), ada, gpus(1));
  EXPECT_EQ(tree.held(*tree.find("a")), (Held{3000, 0, 2}));
  EXPECT_EQ(tree.held_here(*tree.find("a")), Held{});
  EXPECT_EQ(tree.held_by(*tree.find("a"), ada), (Held{3000, 0, 2}));
  tree.give_back(*tree.find("a/b"), ada, gpus(2));
  EXPECT_EQ(tree.held(QueueTree::root()), gpus(1));
}

TEST(QueueTree, WithoutBorrowingTheQuotaIsTheEnd) {
  Settings settings;
  settings.queues = {queue("a", 2000, false)};
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  const QueueId a = *tree.find("a");
  EXPECT_FALSE(tree.obstacle(a, ada, gpus(2)).has_value());
  tree.take(a, ada, gpus(1));
  const auto obstacle = tree.obstacle(a, ada, gpus(2));
  ASSERT_TRUE(obstacle.has_value());
  EXPECT_EQ(obstacle->queue, a);
  EXPECT_EQ(
      tree.describe(*obstacle, ada),
      "queue a holds 1 of the 2 GPU of its quota, and it may not borrow; it starts when a job "
      "of that queue ends");
  EXPECT_FALSE(tree.limit_below(a, ada, gpus(2)).has_value());
  EXPECT_EQ(tree.limit_below(a, ada, gpus(3)), "queue a may have at most 2 GPU at one time");
}

TEST(QueueTree, BorrowingHasALimitOfItsOwn) {
  Settings settings;
  settings.queues = {queue("a", 1000)};
  settings.queues[0].most_share = Share(3000);
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  EXPECT_FALSE(tree.obstacle(*tree.find("a"), ada, gpus(3)).has_value());
  EXPECT_TRUE(tree.obstacle(*tree.find("a"), ada, gpus(4)).has_value());
}

TEST(QueueTree, JobsAndUsersAreLimitedToo) {
  Settings settings;
  settings.queues = {queue("a")};
  settings.queues[0].quota.jobs = 2;
  settings.queues[0].per_user.share = Share(1000);
  settings.users = {{"bob", {{}, gib(10), {}}, 1}};
  QueueTree tree(settings);
  const QueueId a = *tree.find("a");
  const UserId ada = tree.user("ada");
  const UserId bob = tree.user("bob");
  EXPECT_TRUE(tree.obstacle(a, ada, gpus(2))->of_user);
  tree.take(a, ada, gpus(1));
  EXPECT_EQ(tree.obstacle(a, ada, gpus(1))->queue, a);
  EXPECT_FALSE(tree.obstacle(a, bob, gpus(1)).has_value());
  const auto memory = tree.obstacle(a, bob, {100, gib(11).count(), 1});
  ASSERT_TRUE(memory.has_value());
  EXPECT_FALSE(memory->queue.has_value());
  EXPECT_EQ(tree.describe(*memory, bob),
            "bob holds 0 B of the 10.0 GiB of GPU memory that are allowed; it starts when one of "
            "the user's jobs ends");
  tree.take(a, tree.user("cy"), gpus(1));
  EXPECT_FALSE(tree.obstacle(a, bob, {0, 0, 1})->of_user);
}

TEST(QueueTree, ReclaimTakesOnlyBorrowedShareForAQueueWithinItsQuota) {
  Settings settings;
  settings.queues = {queue("a", 2000), queue("b", 1000)};
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  const QueueId a = *tree.find("a");
  const QueueId b = *tree.find("b");
  const QueueId none = *tree.find("default");
  tree.take(b, ada, gpus(2));
  tree.take(none, ada, gpus(1));
  EXPECT_TRUE(tree.may_reclaim(a, gpus(2), b));
  EXPECT_TRUE(tree.may_reclaim(a, gpus(2), none));
  EXPECT_FALSE(tree.may_reclaim(a, gpus(3), b)) << "beyond its own promise";
  EXPECT_FALSE(tree.may_reclaim(none, gpus(1), b)) << "nothing is promised to it";
  tree.give_back(b, ada, gpus(1));
  tree.give_back(b, ada, {0, 0, 0});
  EXPECT_FALSE(tree.may_reclaim(a, gpus(2), b)) << "it holds only what it was promised";
  EXPECT_FALSE(tree.may_reclaim(a, gpus(1), a));
}

TEST(QueueTree, SistersReclaimInsideTheirParent) {
  Settings settings;
  settings.queues = {queue("team", 4000), queue("team/a", 2000), queue("team/b", 2000)};
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  tree.take(*tree.find("team/b"), ada, gpus(6));
  // The parent is beyond its promise; between the sisters that does not matter.
  EXPECT_TRUE(tree.may_reclaim(*tree.find("team/a"), gpus(2), *tree.find("team/b")));
  EXPECT_FALSE(tree.may_reclaim(*tree.find("team"), gpus(1), *tree.find("team/b")));
}

TEST(QueueTree, TheRuleForIdleJobsComesFromAbove) {
  Settings settings;
  settings.idle = {Seconds(10), Seconds(1)};
  settings.queues = {queue("a"), queue("a/b"), queue("c")};
  settings.queues[0].idle = IdlePolicy{Seconds(20), Seconds(1)};
  QueueTree tree(settings);
  EXPECT_EQ(tree.idle(*tree.find("a/b")).after, Seconds(20));
  EXPECT_EQ(tree.idle(*tree.find("c")).after, Seconds(10));
}

TEST(QueueTree, TimeLimitsComeFromAboveAndTheLeastOfThemHolds) {
  Settings settings;
  settings.time = {Seconds(600), Seconds(10'000)};
  settings.queues = {queue("a"), queue("a/b"), queue("a/b/c"), queue("d")};
  settings.queues[0].time = {Seconds(300), Seconds(5'000)};
  settings.queues[1].time = {std::nullopt, Seconds(8'000)};
  settings.queues[2].time = {Seconds(7'000), std::nullopt};
  const QueueTree tree(settings);
  const auto time = [&tree](const char* path) { return tree.time(*tree.find(path)); };
  EXPECT_EQ(time("a"), (TimeLimits{Seconds(300), Seconds(5'000)}));
  EXPECT_EQ(time("a/b"), (TimeLimits{Seconds(300), Seconds(5'000)})) << "what is above holds, too";
  EXPECT_EQ(time("a/b/c"), (TimeLimits{Seconds(5'000), Seconds(5'000)}))
      << "never more than the most";
  EXPECT_EQ(time("d"), (TimeLimits{Seconds(600), Seconds(10'000)}));
  EXPECT_EQ(tree.whose_most_time(*tree.find("a/b/c")), "queue a");
  EXPECT_EQ(tree.whose_most_time(*tree.find("d")), "every queue");
  EXPECT_EQ(QueueTree(Settings()).time(*QueueTree(Settings()).find("default")), TimeLimits());
}

TEST(QueueTree, DescribesOneOfSomethingInTheSingular) {
  Settings settings;
  settings.users = {{"ada", {{}, {}, 1}, 1}};
  settings.queues = {queue("a")};
  settings.queues[0].quota.jobs = 1;
  QueueTree tree(settings);
  const UserId ada = tree.user("ada");
  const UserId ben = tree.user("ben");
  const QueueId a = *tree.find("a");
  tree.take(a, ada, gpus(1));
  const auto why = [&](UserId user) {
    return tree.describe(*tree.obstacle(a, user, gpus(1)), user);
  };
  EXPECT_EQ(why(ada),
            "ada holds 1 of the 1 job that is allowed; it starts when one of the user's jobs ends");
  EXPECT_EQ(why(ben),
            "queue a holds 1 of the 1 job that may run there at one time; it starts when a job of "
            "that queue ends");
}

}  // namespace
}  // namespace divvy::jobs
