#include "sim/free_gpus.h"

#include <gtest/gtest.h>

namespace divvy::sim {
namespace {

constexpr ClusterShape kThreeOfFour{.nodes = 3, .gpus_per_node = 4};

TEST(FreeGpus, TakesTheFirstNodeThatFitsOrTheFullest) {
  FreeGpus free(kThreeOfFour);
  free.take(GpuPlace{{1, 3}});
  EXPECT_EQ(free.first_fit(1), (GpuPlace{{0, 1}}));
  EXPECT_EQ(free.best_fit(1), (GpuPlace{{1, 1}}));
  EXPECT_EQ(free.best_fit(2), (GpuPlace{{0, 2}}));
  EXPECT_EQ(free.free(), 9U);
}

TEST(FreeGpus, PutsLargeJobsOnWholeNodesAndTheRestOnOneMore) {
  FreeGpus free(kThreeOfFour);
  free.take(GpuPlace{{0, 2}});
  EXPECT_EQ(free.first_fit(8), (GpuPlace{{1, 4}, {2, 4}}));
  EXPECT_EQ(free.first_fit(10), (GpuPlace{{1, 4}, {2, 4}, {0, 2}}));
  EXPECT_EQ(free.first_fit(11), std::nullopt);
  // A free node beyond the whole ones takes the rest too.
  EXPECT_EQ(FreeGpus(kThreeOfFour).first_fit(5), (GpuPlace{{0, 4}, {1, 1}}));
}

TEST(FreeGpus, FitsNothingIntoPieces) {
  FreeGpus free(kThreeOfFour);
  for (std::uint32_t node = 0; node < 3; ++node) free.take(GpuPlace{{node, 2}});
  EXPECT_EQ(free.first_fit(3), std::nullopt);
  EXPECT_EQ(free.best_fit(3), std::nullopt);
  EXPECT_EQ(free.first_fit(6), std::nullopt);
}

TEST(FreeGpus, GivingUndoesTaking) {
  FreeGpus free(kThreeOfFour);
  const GpuPlace place{{0, 4}, {2, 1}};
  free.take(place);
  EXPECT_FALSE(free.is_free(place));
  free.give(place);
  EXPECT_TRUE(free.is_free(place));
  EXPECT_EQ(free.free(), 12U);
}

}  // namespace
}  // namespace divvy::sim
