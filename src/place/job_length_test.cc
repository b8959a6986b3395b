#include "place/job_length.h"

#include <gtest/gtest.h>

namespace divvy::place {
namespace {

constexpr double kDay = 86'400;

TEST(JobLength, KnowsNothingAtFirstAndPrefersLittleService) {
  JobLength length;
  length.submitted(0, 1);
  length.submitted(1, 1);
  EXPECT_TRUE(length.attained(0, 10'000));
  EXPECT_FALSE(length.attained(1, 599));
  EXPECT_GT(length.outlook(1).finish_rate, length.outlook(0).finish_rate);
}

TEST(JobLength, CutsServiceIntoDoublingLevels) {
  JobLength length;
  length.submitted(0, 1);
  EXPECT_EQ(length.level_begin_s(0), 0);
  EXPECT_EQ(length.level_end_s(0), 600);
  EXPECT_TRUE(length.attained(0, 600));
  EXPECT_EQ(length.level_end_s(0), 1200);
  EXPECT_TRUE(length.attained(0, 5000));
  EXPECT_EQ(length.level_begin_s(0), 4800);
  EXPECT_EQ(length.level_end_s(0), 9600);
}

TEST(JobLength, LearnsFromNeighboursOfTheSameSizeOnly) {
  JobLength length;
  // Jobs 0..9 of one GPU all end after three days; 10..19 of two GPUs after a minute.
  for (std::uint32_t i = 0; i < 20; ++i) length.submitted(i, i < 10 ? 1 : 2);
  for (std::uint32_t i = 0; i < 20; ++i) {
    if (i == 5 || i == 15) continue;
    length.finished(i, i < 10 ? 3 * kDay : 60);
  }
  EXPECT_GT(length.outlook(15).finish_rate, 10 * length.outlook(5).finish_rate);
  EXPECT_LT(length.outlook(15).remaining_s, length.outlook(5).remaining_s / 2);
}

TEST(JobLength, ExpectsTheEndWhereTheNeighboursEnded) {
  JobLength length;
  for (std::uint32_t i = 0; i < 9; ++i) length.submitted(i, 1);
  for (std::uint32_t i = 0; i < 9; ++i)
    if (i != 4) length.finished(i, 3 * kDay);
  // Just before that service it is as promising as a fresh job is hopeless.
  length.attained(4, 2 * kDay);
  const double before = length.outlook(4).finish_rate;
  length.attained(4, 4 * kDay);
  EXPECT_GT(before, length.outlook(4).finish_rate);
}

TEST(JobLength, NamesTheNeighboursThatAreNotFinished) {
  JobLength length;
  for (std::uint32_t i = 0; i < 40; ++i) length.submitted(i, i % 2 + 1);
  length.finished(2, 10);
  std::vector<std::uint32_t> neighbours;
  length.append_neighbours(0, neighbours);
  ASSERT_EQ(neighbours.size(), 12U);
  EXPECT_EQ(neighbours.front(), 0U);
  EXPECT_EQ(neighbours.at(1), 4U);
  EXPECT_EQ(neighbours.back(), 24U);
}

}  // namespace
}  // namespace divvy::place
