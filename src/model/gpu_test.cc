#include "model/gpu.h"

#include <gtest/gtest.h>

namespace divvy::model {
namespace {

TEST(Gpu, IsDescribedEvenWhenOnlyItsIndexIsKnown) {
  Gpu gpu;
  gpu.index = GpuIndex(3);
  gpu.problems.push_back({"uuid", "GPU is lost"});
  EXPECT_FALSE(gpu.uuid.has_value());
  EXPECT_EQ(memory_free(gpu), std::nullopt);
  EXPECT_EQ(gpu.health.state, HealthState::kUnknown);
}

TEST(Gpu, FreeMemoryIsWhatIsNotUsed) {
  Gpu gpu;
  gpu.memory_total = gib(80);
  EXPECT_EQ(memory_free(gpu), std::nullopt);
  gpu.memory_used = gib(30);
  EXPECT_EQ(memory_free(gpu), gib(50));
  gpu.memory_reserved = gib(1);
  EXPECT_EQ(memory_free(gpu), gib(49));
  gpu.memory_used = gib(81);
  EXPECT_EQ(memory_free(gpu), Bytes(0));
}

TEST(Gpu, OnlyAQuarantinedOneTakesNoWork) {
  EXPECT_TRUE(accepts_new_work(HealthState::kHealthy));
  EXPECT_TRUE(accepts_new_work(HealthState::kSuspect));
  EXPECT_TRUE(accepts_new_work(HealthState::kProbation));
  EXPECT_TRUE(accepts_new_work(HealthState::kUnknown));
  EXPECT_FALSE(accepts_new_work(HealthState::kQuarantined));
}

TEST(Gpu, WordsAreStable) {
  EXPECT_EQ(to_string(HealthState::kQuarantined), "quarantined");
  EXPECT_EQ(to_string(MigMode::kEnabled), "enabled");
  EXPECT_EQ(to_string(ComputeCapability{9, 0}), "9.0");
}

}  // namespace
}  // namespace divvy::model
