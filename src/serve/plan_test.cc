#include "serve/plan.h"

#include <gtest/gtest.h>

#include "serve/plan_testing.h"

namespace divvy::serve {
namespace {

using model::JobId;
using model::Seconds;

std::string last_words(const Service& service) { return service.history.back().text; }

TEST(Plan, AServiceGetsItsReplicasAndKeepsThem) {
  World world(test_service(3, 3));
  EXPECT_EQ(world.round().start.size(), 3U);
  ASSERT_LT(world.settle(), 20);
  EXPECT_EQ(world.ready(), 3U);
  world.end(JobId(2));
  EXPECT_TRUE(world.round().start.empty()) << "its version failed once: there is a short pause";
  ASSERT_LT(world.settle(), 20);
  EXPECT_EQ(world.ready(), 3U);
  EXPECT_EQ(world.service_.versions.front().failures, 0U) << "it has worked for a minute since";
}

TEST(Plan, AnUpdateStartsOneMoreAndTakesNoneAwayBeforeItIsReady) {
  World world(test_service(2, 2));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("better"), 100, "ada", world.now_));
  const Plan first = world.round();
  EXPECT_EQ(first.start, (std::vector<VersionNumber>{2}));
  EXPECT_TRUE(first.stop.empty());
  world.run(JobId(3));
  EXPECT_TRUE(world.round().stop.empty());
  EXPECT_EQ(world.ready(1), 2U) << "it runs, and does not answer yet";
  world.jobs_.at(JobId(3)).healthy = true;
  world.jobs_.at(JobId(1)).in_flight = 1;
  world.jobs_.at(JobId(2)).in_flight = 1;
  EXPECT_TRUE(world.round().stop.empty()) << "its request goes on";
  EXPECT_EQ(world.ready(1), 1U);
  EXPECT_TRUE(world.service_.replicas.at(JobId(2)).retiring);
  world.jobs_.at(JobId(2)).in_flight = 0;
  EXPECT_EQ(world.round().stop, (std::vector<JobId>{JobId(2)}));
  ASSERT_LT(world.settle(), 20);
  EXPECT_EQ(world.ready(2), 2U);
  EXPECT_EQ(world.service_.stable, 2U);
  EXPECT_FALSE(world.service_.candidate);
}

TEST(Plan, AReplicaThatIsToEndIsNotWaitedForForever) {
  World world(test_service(1, 1));
  world.settle();
  ASSERT_TRUE(change_settings(world.service_, test_settings(0, 0), "ada", world.now_));
  world.jobs_.at(JobId(1)).in_flight = 1;
  EXPECT_TRUE(world.round().stop.empty());
  world.pass(Seconds(29));
  EXPECT_TRUE(world.round().stop.empty());
  world.pass(Seconds(1));
  EXPECT_EQ(world.round().stop, (std::vector<JobId>{JobId(1)}));
}

TEST(Plan, AVersionThatDoesNotGetReadyIsTakenBack) {
  World world(test_service(2, 2));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("worse"), 100, "ada", world.now_));
  world.round();
  world.run(JobId(3));
  world.round();
  world.pass(Seconds(60));
  world.round();
  EXPECT_FALSE(world.service_.candidate);
  EXPECT_EQ(world.service_.versions.at(1).rejected,
            "job 3 was not ready within 60 s: /health did not answer");
  EXPECT_EQ(world.ready(1), 2U);
  ASSERT_LT(world.settle(), 20);
  EXPECT_EQ(world.jobs_.size(), 2U);
}

TEST(Plan, AClockThatIsSetBackMakesNoPauseLonger) {
  World world(test_service(1, 1));
  world.settle();
  world.end(JobId(1));
  EXPECT_TRUE(world.round().start.empty()) << "its version failed once";
  world.now_ -= std::chrono::hours(24);
  const Plan pause = world.round();
  ASSERT_TRUE(pause.look_at);
  EXPECT_EQ(*pause.look_at - world.now_, Seconds(1));
  world.pass(Seconds(1));
  EXPECT_EQ(world.round().start.size(), 1U);
  world.run(JobId(2));
  world.round();
  world.now_ -= std::chrono::hours(24);
  world.round();
  world.pass(Seconds(60));
  world.round();
  EXPECT_TRUE(world.service_.replicas.at(JobId(2)).retiring) << "it was not ready in time";
}

TEST(Plan, TimeInTheQueueIsNotHeldAgainstAVersion) {
  World world(test_service(1, 1));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("big"), 100, "ada", world.now_));
  world.round();
  world.pass(Seconds(100'000));
  world.round();
  EXPECT_TRUE(world.service_.candidate);
}

TEST(Plan, AVersionWhoseReplicasEndIsTakenBackAfterThree) {
  World world(test_service(1, 1));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("broken"), 100, "ada", world.now_));
  int started = 0;
  for (int i = 0; i < 20 && world.service_.candidate; ++i) {
    const Plan made = world.round();
    started += static_cast<int>(made.start.size());
    for (std::uint64_t id = 2; id <= world.last_; ++id) world.end(JobId(id));
    if (made.look_at) world.now_ = *made.look_at;
  }
  EXPECT_EQ(started, 3);
  EXPECT_EQ(world.ready(1), 1U);
  EXPECT_NE(last_words(world.service_).find("version 2 is taken back, and version 1 goes on"),
            std::string::npos);
}

TEST(Plan, ACrashLoopGetsSlower) {
  World world(test_service(1, 1));
  std::vector<std::int64_t> starts;
  for (int i = 0; i < 40; ++i) {
    const Plan made = world.round();
    if (!made.start.empty()) {
      starts.push_back(world.now_.time_since_epoch() / Seconds(1));
      world.end(JobId(world.last_));
      continue;
    }
    ASSERT_TRUE(made.look_at);
    world.now_ = *made.look_at;
  }
  ASSERT_GT(starts.size(), 12U);
  EXPECT_EQ(starts[2] - starts[1], 2);
  EXPECT_EQ(starts[12] - starts[11], 300);
}

TEST(Plan, ACanaryGetsItsPartAndStaysUntilItIsPromoted) {
  World world(test_service(4, 4));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("canary"), 10, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(1), 3U);
  EXPECT_EQ(world.ready(2), 1U);
  const auto asked = weights(world.service_);
  std::uint32_t all = 0;
  std::uint32_t canary = 0;
  for (const auto& [job, weight] : asked) {
    all += weight;
    if (world.service_.replicas.at(job).version == 2) canary += weight;
  }
  EXPECT_EQ((canary * 100 + all / 2) / all, 10U);
  ASSERT_TRUE(promote(world.service_, 100, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(2), 4U);
  EXPECT_EQ(world.service_.stable, 2U);
}

TEST(Plan, ACanaryOfASingleReplicaIsASecondOne) {
  World world(test_service(1, 1));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("canary"), 50, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(1), 1U);
  EXPECT_EQ(world.ready(2), 1U);
  ASSERT_TRUE(roll_back(world.service_, {}, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(1), 1U);
  EXPECT_EQ(world.ready(), 1U);
}

TEST(Plan, RollingBackGoesToTheVersionBefore) {
  World world(test_service(2, 2));
  world.settle();
  ASSERT_TRUE(update(world.service_, test_replica("two"), 100, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(2), 2U);
  ASSERT_TRUE(roll_back(world.service_, {}, "ada", world.now_));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(1), 2U);
  EXPECT_EQ(world.service_.stable, 1U);
}

TEST(Plan, RequestsInFlightDecideHowManyReplicasThereAre) {
  World world(test_service(1, 5));
  world.settle();
  world.traffic_ = Traffic{.in_flight = 17, .requests = 17};
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.ready(), 5U) << "four requests for each";
  world.traffic_ = Traffic{.in_flight = 6, .requests = 100};
  world.round();
  EXPECT_EQ(world.service_.desired, 5U) << "it may be a short pause";
  world.pass(Seconds(30));
  world.traffic_ = Traffic{.in_flight = 9, .requests = 120};
  world.round();
  world.pass(Seconds(30));
  world.traffic_ = Traffic{.in_flight = 2, .requests = 140};
  world.round();
  EXPECT_EQ(world.service_.desired, 3U) << "the most that were needed in the last minute";
}

// `seconds` rounds with such traffic, a second apart.
void serve_for(World& world, int seconds, Traffic traffic) {
  for (int i = 0; i < seconds; ++i) {
    traffic.requests = world.traffic_->requests + 1;
    world.traffic_ = traffic;
    world.pass(Seconds(1));
    world.round();
  }
}

// Replicas that were started run and answer; those that were told to end have ended.
void bring_up(World& world) {
  for (auto& [id, job] : world.jobs_) {
    if (job.phase == Phase::kWaiting) world.run(id);
    if (job.phase == Phase::kStopping) world.end(id);
    job.healthy = true;
  }
  world.round();
}

World scaled_world(std::uint32_t latency_ms, std::uint32_t gpu_use) {
  Settings settings = test_settings(1, 4);
  settings.scale.in_flight = 0;
  settings.scale.latency_ms = latency_ms;
  settings.scale.gpu_use = gpu_use;
  World world(make_service("model", "ada", settings, test_replica(), at_second(0)).value());
  world.round();
  bring_up(world);
  return world;
}

TEST(Plan, LatencyDecidesOneReplicaAtATimeOnceAllAreAtWork) {
  World world = scaled_world(50, 0);
  const Traffic slow{.in_flight = 9, .requests = 0, .latency_ms = 80};
  serve_for(world, 14, slow);
  EXPECT_EQ(world.service_.desired, 1U) << "it is not judged yet";
  serve_for(world, 1, slow);
  EXPECT_EQ(world.service_.desired, 2U);
  EXPECT_EQ(last_words(world.service_),
            "2 replicas instead of 1, with 9 requests in flight, answers after 80 ms");
  serve_for(world, 60, slow);
  EXPECT_EQ(world.service_.desired, 2U) << "the second one does not work yet";
  bring_up(world);
  serve_for(world, 17, slow);
  EXPECT_EQ(world.service_.desired, 3U);
  bring_up(world);
  serve_for(world, 120, {.in_flight = 9, .requests = 0, .latency_ms = 40});
  EXPECT_EQ(world.service_.desired, 3U) << "between half of what is wanted and all of it";
  serve_for(world, 100, {.in_flight = 9, .requests = 0, .latency_ms = 10});
  EXPECT_EQ(world.service_.desired, 2U) << "fewer would have done for a minute";
}

TEST(Plan, UseOfTheGpuDecidesInProportion) {
  World world = scaled_world(0, 50);
  const auto used = [](std::uint32_t percent) {
    return Traffic{.in_flight = 1, .requests = 0, .latency_ms = {}, .gpu_use = percent};
  };
  serve_for(world, 45, used(54));
  EXPECT_EQ(world.service_.desired, 1U) << "less than a tenth away";
  serve_for(world, 20, used(140));
  EXPECT_EQ(world.service_.desired, 3U);
  EXPECT_EQ(last_words(world.service_),
            "3 replicas instead of 1, with 1 request in flight, 140 % of their share of the GPU "
            "used");
  bring_up(world);
  serve_for(world, 17, used(500));
  EXPECT_EQ(world.service_.desired, 4U) << "no more than there may be";
  bring_up(world);
  world.traffic_->gpu_use.reset();
  serve_for(world, 100, {.in_flight = 1, .requests = 0});
  EXPECT_EQ(world.service_.desired, 4U) << "nobody knows what is used";
  serve_for(world, 80, used(20));
  EXPECT_EQ(world.service_.desired, 2U);
}

TEST(Plan, GoesToZeroWhenNobodyAsksAndComesBackForTheFirstRequest) {
  World world(test_service(0, 5));
  world.traffic_ = Traffic{.in_flight = 0, .requests = 10};
  world.round();
  world.run(JobId(1));
  world.jobs_.at(JobId(1)).healthy = true;
  world.round();
  world.pass(Seconds(200));
  world.traffic_ = Traffic{.in_flight = 0, .requests = 11};
  world.round();
  world.pass(Seconds(299));
  world.round();
  EXPECT_EQ(world.service_.desired, 1U);
  world.pass(Seconds(1));
  world.round();
  EXPECT_EQ(world.service_.desired, 0U);
  ASSERT_LT(world.settle(), 20);
  EXPECT_TRUE(world.jobs_.empty());
  world.memory_ = {};
  world.pass(Seconds(10));
  EXPECT_TRUE(world.round().start.empty()) << "a new daemon does not wake it up";
  world.traffic_ = Traffic{.in_flight = 1, .requests = 12};
  EXPECT_EQ(world.round().start.size(), 1U);
}

TEST(Plan, NothingIsDecidedByTrafficThatNobodyKnows) {
  World world(test_service(0, 5));
  world.traffic_ = std::nullopt;
  world.settle();
  EXPECT_EQ(world.ready(), 1U);
  world.pass(Seconds(100'000));
  world.round();
  EXPECT_EQ(world.service_.desired, 1U);
}

TEST(Plan, AnUpdateOfASleepingServiceShowsThatItWorksFirst) {
  World world(test_service(0, 2));
  world.service_.desired = 0;
  ASSERT_TRUE(update(world.service_, test_replica("two"), 100, "ada", world.now_));
  EXPECT_EQ(world.round().start, (std::vector<VersionNumber>{2}));
  ASSERT_LT(world.settle(), 50);
  EXPECT_EQ(world.service_.stable, 2U);
  EXPECT_TRUE(world.jobs_.empty()) << "and then it sleeps again";
}

TEST(Plan, WhatIsDeletedDrainsAndIsGone) {
  World world(test_service(2, 2));
  world.settle();
  world.service_.deleting = true;
  world.jobs_.at(JobId(1)).in_flight = 1;
  EXPECT_FALSE(world.round().gone);
  EXPECT_EQ(world.round().stop, (std::vector<JobId>{JobId(2)}));
  world.jobs_.at(JobId(1)).in_flight = 0;
  world.settle();
  EXPECT_TRUE(world.round().gone);
}

TEST(Plan, AReplicaThatIsPreemptedComesBackAsTheSameJob) {
  World world(test_service(1, 1));
  world.settle();
  world.jobs_.at(JobId(1)).phase = Phase::kStopping;
  EXPECT_TRUE(world.round().start.empty());
  EXPECT_EQ(world.ready(), 0U);
  world.jobs_.at(JobId(1)) =
      Replica{.job = JobId(1), .version = 1, .phase = Phase::kWaiting, .since = world.now_};
  EXPECT_TRUE(world.round().start.empty());
  ASSERT_LT(world.settle(), 20);
  EXPECT_EQ(world.ready(), 1U);
  EXPECT_EQ(world.service_.versions.front().failures, 0U);
}

}  // namespace
}  // namespace divvy::serve
