#include "sim/pack_replay.h"

#include <gtest/gtest.h>

#include <numeric>

#include "place/lots.h"
#include "place/policy.h"

namespace divvy::sim {
namespace {

place::NodeSpec node(const std::string& name, std::uint64_t cpus, std::size_t gpus,
                     const std::string& model = "T4") {
  place::NodeSpec spec;
  spec.name = name;
  spec.cpu_milli = cpus * 1000;
  spec.ram = gib(64);
  place::DeviceSpec device;
  device.model = model;
  device.memory = Bytes(16'000'000'000);
  spec.devices.assign(gpus, device);
  return spec;
}

PackPod pod(std::uint32_t gpus, std::uint32_t milli, std::uint64_t cpus = 1) {
  PackPod result;
  result.cpu_milli = cpus * 1000;
  result.ram = gib(1);
  result.gpus = gpus;
  result.gpu_milli = milli;
  return result;
}

PackSequence order(std::vector<std::uint32_t> arrivals) { return {"order", std::move(arrivals)}; }

PackRun replay(const PackInput& input, const PackSequence& sequence, const std::string& policy,
               std::uint64_t seed = 1) {
  auto run = replay_pack(input, sequence, {.policy = policy, .seed = seed});
  EXPECT_TRUE(run) << (run ? "" : run.error().message);
  return std::move(run).value_or(PackRun{});
}

TEST(PackReplay, MeasuresAllocationByWhatArrived) {
  const PackInput input{{node("a", 8, 2)}, {pod(1, 500), pod(1, 1000), pod(0, 0)}};
  // 500, 500, 1000 and 1000 of 2000: the last one finds no place. The pod without GPU does.
  const PackRun run = replay(input, order({0, 2, 0, 1, 1}), "bestfit");
  EXPECT_EQ(run.arrivals, 5U);
  EXPECT_EQ(run.failed, 1U);
  EXPECT_DOUBLE_EQ(run.alloc, 100);
  ASSERT_EQ(run.levels.size(), 4U);
  EXPECT_DOUBLE_EQ(run.levels.at(25).alloc, 25);  // two arrivals
  EXPECT_DOUBLE_EQ(run.levels.at(50).alloc, 50);
  EXPECT_DOUBLE_EQ(run.levels.at(100).alloc, 100);
  EXPECT_DOUBLE_EQ(run.levels.at(150).alloc, 100);
}

TEST(PackReplay, TakesMeansOfRoundedValuesInABucket) {
  // One thousandth each: eleven arrivals are 0.366 % of three GPUs, and all of them are level 0.
  const PackInput input{{node("a", 64, 3)}, {pod(1, 1)}};
  const PackRun run = replay(input, order(std::vector<std::uint32_t>(11, 0)), "packing");
  ASSERT_EQ(run.levels.size(), 1U);
  double sum = 0;
  for (int i = 1; i <= 11; ++i) sum += std::round(i / 30.0 * 100) / 100;
  EXPECT_NEAR(run.levels.at(0).alloc, sum / 11, 1e-9);
}

TEST(PackReplay, MeasuresFragmentationForTypicalPods) {
  // Of the pods half want 600 and half want a whole GPU; on one GPU of two 600 are taken.
  const PackInput input{{node("a", 8, 2)}, {pod(1, 600), pod(1, 1000)}};
  const PackRun run = replay(input, order({0}), "fgd");
  // 400 and 1000 are free: 400 is of no use to either.
  EXPECT_NEAR(run.levels.at(30).frag, 100 * 400 / 2000.0, 0.005);
  EXPECT_NEAR(run.levels.at(30).frag_ratio, 100 * 400 / 1400.0, 0.005);
}

TEST(PackReplay, CountsFragmentationOfAFullClusterAsNothing) {
  const PackInput input{{node("a", 8, 1)}, {pod(1, 1000)}};
  const PackRun run = replay(input, order({0}), "fgd");
  EXPECT_DOUBLE_EQ(run.levels.at(100).frag, 0);
  EXPECT_DOUBLE_EQ(run.levels.at(100).frag_ratio, 0);
}

TEST(PackReplay, KeepsToCpusMemoryAndModels) {
  PackPod hungry = pod(1, 1000);
  hungry.ram = gib(65);
  PackPod busy = pod(1, 1000, 9);
  PackPod choosy = pod(1, 1000);
  choosy.models = {"V100"};
  const PackInput input{{node("a", 8, 2, "V100M16")}, {hungry, busy, choosy}};
  EXPECT_EQ(replay(input, order({0, 1, 2}), "spread").failed, 3U);
}

TEST(PackReplay, AsksForModelsToTheLetter) {
  PackPod choosy = pod(1, 1000);
  choosy.models = {"V100M32", "T4"};
  const place::Ask ask = ask_of(choosy, {"T4", "V100M16", "V100M32"});
  EXPECT_EQ(ask.models, 0b101U);
  EXPECT_EQ(ask.whole, 1U);
  EXPECT_EQ(ask_of(pod(1, 300), {"T4"}).part, 300U);
  EXPECT_EQ(ask_of(pod(1, 300), {"T4"}).models, ~place::ModelSet{0});
}

TEST(PackReplay, IsTheSameForTheSameSeedUnderEveryPolicy) {
  PackInput input;
  for (int i = 0; i < 12; ++i) input.nodes.push_back(node("n" + std::to_string(i), 16, 1 + i % 4));
  input.pods = {pod(1, 300), pod(1, 700, 3), pod(2, 1000, 4), pod(0, 0, 2), pod(1, 1000, 2)};
  place::Lots lots(3);
  std::vector<std::uint32_t> arrivals(120);
  for (std::uint32_t& each : arrivals) each = lots.below(5);
  for (const place::PolicyInfo& info : place::policies()) {
    const std::string policy(info.name);
    const PackRun first = replay(input, order(arrivals), policy, 5);
    const PackRun again = replay(input, order(arrivals), policy, 5);
    EXPECT_EQ(first.levels, again.levels) << policy;
    EXPECT_EQ(first.failed, again.failed) << policy;
    EXPECT_GT(first.alloc, 50) << policy;
    EXPECT_LE(first.alloc, 100) << policy;
  }
}

TEST(PackReplay, RefusesUnknownPoliciesAndTellsHowFarItIs) {
  const PackInput input{{node("a", 8, 2)}, {pod(1, 1)}};
  EXPECT_FALSE(replay_pack(input, order({0}), {.policy = "nobody"}));
  std::vector<std::size_t> told;
  const PackOptions options{.policy = "fgd",
                            .progress = [&](std::size_t arrived) { told.push_back(arrived); }};
  ASSERT_TRUE(replay_pack(input, order(std::vector<std::uint32_t>(1025, 0)), options));
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 512, 1024}));
}

TEST(Lots, ShuffleIsEvenAndTheSameForTheSameSeed) {
  std::vector<int> counts(6, 0);
  place::Lots lots(9);
  for (int round = 0; round < 6000; ++round) {
    std::vector<int> items{0, 1, 2};
    lots.shuffle(std::span(items));
    ++counts[static_cast<std::size_t>(items[0] * 2 + (items[1] > items[2] ? 1 : 0))];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 880);
    EXPECT_LT(count, 1120);
  }
}

}  // namespace
}  // namespace divvy::sim
