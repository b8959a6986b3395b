#include "jobs/idle.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using testing::at;

constexpr model::JobId kJob{1};
constexpr IdlePolicy kPolicy{Seconds(100), Seconds(30)};

TEST(IdleWatch, WarnsOnceThenEnds) {
  IdleWatch watch;
  watch.begin(kJob, at(0));
  EXPECT_FALSE(watch.look(kJob, kPolicy, at(69)).left.has_value());
  const auto first = watch.look(kJob, kPolicy, at(70));
  EXPECT_TRUE(first.warn);
  EXPECT_EQ(first.left, Seconds(30));
  const auto second = watch.look(kJob, kPolicy, at(80));
  EXPECT_FALSE(second.warn);
  EXPECT_EQ(second.left, Seconds(20));
  EXPECT_EQ(watch.left(kJob, kPolicy, at(90)), Seconds(10));
  EXPECT_TRUE(watch.look(kJob, kPolicy, at(100)).end);
}

TEST(IdleWatch, WorkTakesTheWarningBack) {
  IdleWatch watch;
  watch.begin(kJob, at(0));
  EXPECT_TRUE(watch.look(kJob, kPolicy, at(70)).warn);
  watch.used(kJob, at(75));
  EXPECT_FALSE(watch.left(kJob, kPolicy, at(80)).has_value());
  EXPECT_FALSE(watch.look(kJob, kPolicy, at(144)).warn);
  EXPECT_TRUE(watch.look(kJob, kPolicy, at(145)).warn);
}

TEST(IdleWatch, NobodyIsEndedWithoutAPolicy) {
  IdleWatch watch;
  watch.begin(kJob, at(0));
  EXPECT_FALSE(watch.look(kJob, {}, at(1'000'000)).end);
  EXPECT_FALSE(watch.next(kJob, {}).has_value());
}

TEST(IdleWatch, AClockThatIsSetBackEndsNobodyEarly) {
  IdleWatch watch;
  watch.begin(kJob, at(1'000));
  EXPECT_FALSE(watch.look(kJob, kPolicy, at(0)).left.has_value());
  EXPECT_FALSE(watch.look(kJob, kPolicy, at(69)).left.has_value());
}

TEST(IdleWatch, SaysWhenToLookAgain) {
  IdleWatch watch;
  watch.begin(kJob, at(0));
  EXPECT_EQ(watch.next(kJob, kPolicy), at(70));
  EXPECT_TRUE(watch.look(kJob, kPolicy, at(70)).warn);
  EXPECT_EQ(watch.next(kJob, kPolicy), at(100));
  watch.finish(kJob);
  EXPECT_FALSE(watch.next(kJob, kPolicy).has_value());
}

}  // namespace
}  // namespace divvy::jobs
