#include "place/job_order.h"

#include <gtest/gtest.h>

#include <cmath>

namespace divvy::place {
namespace {

std::unique_ptr<JobOrder> make(std::string_view name) {
  auto order = make_job_order(name, 64);
  EXPECT_TRUE(order.has_value());
  return *std::move(order);
}

OrderedJob job(std::uint32_t index, std::uint32_t gpus, double attained_s, double submitted_s = 0) {
  OrderedJob made;
  made.index = index;
  made.gpus = gpus;
  made.attained_s = attained_s;
  made.submitted_s = submitted_s;
  return made;
}

TEST(JobOrder, EveryNameThatIsListedCanBeMade) {
  for (const auto& info : job_orders()) {
    const auto order = make_job_order(info.name, 64);
    ASSERT_TRUE(order.has_value()) << info.name;
    EXPECT_EQ((*order)->name(), info.name);
    EXPECT_FALSE(info.about.empty());
  }
}

TEST(JobOrder, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(make_job_order("lass", 64).error().message,
            "there is no job policy \"lass\" (did you mean \"las\"?); the policies are fifo, "
            "fifo-backfill, sjf, srtf, srsf, las, divvy");
}

TEST(JobOrder, OnlyThreePoliciesKnowDurations) {
  std::string knowing;
  for (const auto& info : job_orders())
    if (make(info.name)->knows_durations()) knowing += std::string(info.name) + " ";
  EXPECT_EQ(knowing, "sjf srtf srsf ");
}

TEST(LasOrder, PutsJobsIntoQueuesThatDouble) {
  const auto las = make("las");
  const auto queue = [&](std::uint32_t gpus, double attained_s) {
    return las->rank(job(0, gpus, attained_s), 0).key;
  };
  EXPECT_EQ(queue(1, 0), 0);
  EXPECT_EQ(queue(1, 59), 0);
  EXPECT_EQ(queue(1, 60), 1);
  EXPECT_EQ(queue(4, 15), 1);
  EXPECT_EQ(queue(1, 119), 1);
  EXPECT_EQ(queue(8, 1000), std::floor(std::log2(8000.0 / 60)) + 1);
}

TEST(LasOrder, ComesBackWhenTheQueueEnds) {
  const auto las = make("las");
  EXPECT_EQ(las->next_attained_s(job(0, 1, 0)), 60);
  EXPECT_EQ(las->next_attained_s(job(0, 4, 0)), 15);
  EXPECT_EQ(las->next_attained_s(job(0, 1, 60)), 120);
  // A hair before the end counts as the end, else the caller would come back for ever.
  EXPECT_EQ(las->next_attained_s(job(0, 1, 60 - 1e-7)), 120);
}

TEST(DivvyOrder, PrefersLittleServiceAndFewGpusWhileItKnowsNothing) {
  const auto order = make("divvy");
  for (std::uint32_t i = 0; i < 3; ++i) {
    order->submitted(job(i, i == 2 ? 8 : 1, 0));
    (void)order->rank(job(i, i == 2 ? 8 : 1, i == 1 ? 5000 : 0), 10);
  }
  EXPECT_TRUE(order->review(10).all);
  const auto fresh = order->rank(job(0, 1, 0), 10);
  const auto served = order->rank(job(1, 1, 5000), 10);
  const auto large = order->rank(job(2, 8, 0), 10);
  EXPECT_LT(fresh, served);
  EXPECT_LT(fresh, large);
}

TEST(DivvyOrder, LetsAnOldJobGoFirst) {
  const auto order = make("divvy");
  // A hundred jobs of an hour on one GPU each, all finished: a FIFO queue over 64 GPUs gives them
  // little more than an hour.
  for (std::uint32_t i = 0; i < 100; ++i) {
    order->submitted(job(i, 1, 0));
    order->finished(job(i, 1, 3600), 4000);
  }
  order->submitted(job(100, 64, 0, 0));
  order->submitted(job(101, 1, 0, 200'000));
  (void)order->rank(job(100, 64, 40'000), 200'000);
  EXPECT_TRUE(order->review(200'000).all);
  const auto old_and_large = order->rank(job(100, 64, 40'000, 0), 200'000);
  const auto middle_aged = order->rank(job(101, 1, 20'000, 200'000), 200'000);
  EXPECT_LT(old_and_large, middle_aged);
}

TEST(DivvyOrder, TellsTheNeighboursOfAFinishedJob) {
  const auto order = make("divvy");
  for (std::uint32_t i = 0; i < 200; ++i) order->submitted(job(i, 1, 0));
  for (std::uint32_t i = 0; i < 100; ++i) order->finished(job(i, 1, 10), 50);
  EXPECT_TRUE(order->review(50).all);
  order->finished(job(150, 1, 10), 51);
  const auto review = order->review(51);
  EXPECT_FALSE(review.all);
  EXPECT_EQ(review.some.size(), 24U);
  EXPECT_EQ(review.some.front(), 138U);
}

}  // namespace
}  // namespace divvy::place
