#include "api/use_history.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

using model::JobId;
using model::MemberKey;

UseHistory::Point point(std::int64_t at, std::uint32_t used) { return {at, used, 2 * used}; }

TEST(UseHistory, GivesThePointsOfAnAttemptByRank) {
  UseHistory history;
  history.add(MemberKey{JobId(7), 1, 0}, "GPU-a", point(5, 300));
  history.add(MemberKey{JobId(7), 1, 1}, "GPU-b", point(5, 400));
  history.add(MemberKey{JobId(7), 2, 0}, "GPU-a", point(9, 500));
  history.add(MemberKey{JobId(8), 1, 0}, "GPU-a", point(9, 600));
  const auto first = history.of(JobId(7), 1);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].gpu, "GPU-a");
  EXPECT_EQ(first[1].rank, 1U);
  EXPECT_EQ(first[1].points.front().used_thousandths, 400U);
  EXPECT_EQ(history.of(JobId(7), 2).size(), 1U);
  EXPECT_TRUE(history.of(JobId(9), 1).empty());
}

TEST(UseHistory, KeepsMeansOfWhatIsOlderAndForgetsWhatIsOlderThanADay) {
  UseHistory history;
  const MemberKey member{JobId(1), 1, 0};
  const std::size_t coarse = UseHistory::kStepsPerCoarse * UseHistory::kCoarsePoints;
  const std::size_t all = UseHistory::kFinePoints + coarse + 10 * UseHistory::kStepsPerCoarse;
  for (std::size_t i = 0; i < all; ++i) {
    // Between 100 and 200, so a mean of 150.
    history.add(member, "GPU-a", point(static_cast<std::int64_t>(5 * i), i % 2 == 0 ? 100 : 200));
  }
  const auto series = history.of(JobId(1), 1);
  ASSERT_EQ(series.size(), 1U);
  const auto& points = series.front().points;
  EXPECT_EQ(points.size(), UseHistory::kFinePoints + UseHistory::kCoarsePoints);
  EXPECT_EQ(points.front().used_thousandths, 150U);
  EXPECT_GT(points.front().unix_seconds, 0);
  EXPECT_EQ(points.back().unix_seconds, static_cast<std::int64_t>(5 * (all - 1)));
  for (std::size_t i = 1; i < points.size(); ++i) {
    ASSERT_LT(points[i - 1].unix_seconds, points[i].unix_seconds);
  }
}

TEST(UseHistory, ForgetsTheSeriesThatEndedLongestAgoWhereThereAreTooMany) {
  UseHistory history;
  for (std::uint32_t i = 0; i < UseHistory::kMostSeries; ++i) {
    history.add(MemberKey{JobId(i + 1), 1, 0}, "GPU-a", point(i == 4 ? 0 : 100 + i, 1));
  }
  history.add(MemberKey{JobId(900'000), 1, 0}, "GPU-a", point(5000, 1));
  EXPECT_TRUE(history.of(JobId(5), 1).empty());
  EXPECT_EQ(history.of(JobId(4), 1).size(), 1U);
  EXPECT_EQ(history.of(JobId(900'000), 1).size(), 1U);
}

TEST(UseHistory, TakesMembersFromTheDocumentOfAMachineAndNothingElse) {
  UseHistory history;
  add_tenants(history, R"([
    {"name": "notebook", "holder": "process", "job": 3, "attempt": 1, "rank": 0, "slices": [
      {"gpu": {"uuid": "GPU-a"}, "usedShareThousandths": 250, "memoryUsedBytes": 10485760},
      {"gpu": {"uuid": "GPU-b"}, "usedShareThousandths": null, "memoryUsedBytes": -4}]},
    {"name": "job-5.1.0", "job": null, "attempt": 0, "rank": 0,
     "slices": [{"gpu": {"uuid": "GPU-a"}, "usedShareThousandths": 1}]},
    {"job": -3, "slices": [{"gpu": {"uuid": "GPU-a"}}]}, {"job": "3"}, 4,
    {"job": 4, "attempt": 1, "rank": 0, "slices": [7, {"gpu": 3}, {"gpu": {"uuid": 2}}]}])",
              60);
  const auto series = history.of(JobId(3), 1);
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series[0].points.front().used_thousandths, 250U);
  EXPECT_EQ(series[0].points.front().memory_mebibytes, 10U);
  EXPECT_EQ(series[1].points.front().used_thousandths, 0U);
  EXPECT_EQ(series[1].points.front().memory_mebibytes, 0U);
  EXPECT_TRUE(history.of(JobId(4), 1).empty());
  EXPECT_TRUE(history.of(JobId(5), 1).empty()) << "a name says nothing";
  add_tenants(history, "no JSON", 65);
  EXPECT_EQ(history.of(JobId(3), 1).front().points.size(), 1U);
}

}  // namespace
}  // namespace divvy::api
