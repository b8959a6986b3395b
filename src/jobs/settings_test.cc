#include "jobs/settings.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

std::string refusal(const Settings& settings) {
  const Status status = check(settings);
  return status ? "" : status.error().message;
}

TEST(Settings, AcceptsTheDefaults) { EXPECT_EQ(refusal({}), ""); }

TEST(Settings, NamesTheInvalidField) {
  Settings twice;
  twice.queues = {testing::queue("a"), testing::queue("a")};
  EXPECT_EQ(refusal(twice), "queues.a: it is there twice");
  Settings path;
  path.queues = {testing::queue("a//b")};
  EXPECT_TRUE(refusal(path).starts_with("queues: "));
  Settings less;
  less.queues = {testing::queue("a", 2000)};
  less.queues[0].most_share = Share(1000);
  EXPECT_EQ(refusal(less), "queues.a.most_share: 1 is less than its quota of 2");
  Settings weight;
  weight.queues = {testing::queue("a")};
  weight.queues[0].weight = 0;
  EXPECT_TRUE(refusal(weight).starts_with("queues.a.weight: "));
  Settings user;
  user.users = {{"ada", {}, 0}};
  EXPECT_TRUE(refusal(user).starts_with("users.ada.weight: "));
  Settings life;
  life.half_life = Seconds(0);
  EXPECT_TRUE(refusal(life).starts_with("half_life: "));
  Settings idle;
  idle.idle = {Seconds(60), Seconds(61)};
  EXPECT_TRUE(refusal(idle).starts_with("idle.warning: "));
  Settings time;
  time.queues = {testing::queue("a")};
  time.queues[0].time = {Seconds(61), Seconds(60)};
  EXPECT_EQ(refusal(time),
            "queues.a.default_time_limit: 1m1s is more than the 1m that max_time_limit allows");
  time.queues[0].time = {{}, Seconds(0)};
  EXPECT_TRUE(refusal(time).starts_with("queues.a.max_time_limit: 0 s is outside of"));
  Settings policy;
  policy.policy = "divy";
  EXPECT_TRUE(refusal(policy).starts_with("policy: "));
}

TEST(Quota, IsDescribedInWords) {
  EXPECT_EQ(describe(Quota{}), "nothing");
  EXPECT_EQ(describe(Quota{Share(2500), {}, {}}), "2.5 GPU");
  EXPECT_EQ(describe(Quota{Share(500), gib(10), 1}), "0.5 GPU, 10.0 GiB of GPU memory and 1 job");
}

}  // namespace
}  // namespace divvy::jobs
