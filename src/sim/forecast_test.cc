#include "sim/forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "jobs/testing.h"
#include "sim/forecast_compare.h"

namespace divvy::sim {
namespace {

using jobs::testing::Desk;
using jobs::testing::spec;

model::JobSpec lasting(std::uint32_t thousandths, std::int64_t seconds) {
  model::JobSpec made = spec(thousandths);
  made.expected = Seconds(seconds);
  return made;
}

Forecast look(Desk& desk, const jobs::Fleet& fleet, const ForecastLimits& limits = {}) {
  jobs::Snapshot snapshot = desk.queue().snapshot(1'000);
  snapshot.fleet = fleet;
  auto made = forecast(std::move(snapshot), {}, desk.now(), limits);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(Forecast, StartsWhoWaitsWhenTheOthersEnd) {
  Desk desk({}, jobs::testing::fleet(1, 1));
  desk.submit(lasting(1'000, 100));
  desk.run();
  desk.wait(40);
  desk.submit(lasting(1'000, 30));
  desk.submit(lasting(1'000, 10));
  const Forecast seen = look(desk, jobs::testing::fleet(1, 1));
  ASSERT_EQ(seen.jobs.size(), 3U);
  EXPECT_FALSE(seen.jobs[0].waited);
  EXPECT_EQ(seen.jobs[0].ends, Seconds(60));
  EXPECT_EQ(seen.jobs[1].starts, Seconds(60));
  EXPECT_EQ(seen.jobs[2].starts, Seconds(90));
  EXPECT_EQ(seen.jobs[2].ends, Seconds(100));
  EXPECT_EQ(seen.end, ForecastEnd::kAtRest);
  const ForecastSummary summary = summarise(seen, period_of(seen, seen), 10);
  EXPECT_EQ(summary.waits.waiting, 2U);
  EXPECT_EQ(summary.waits.longest, Seconds(90));
  EXPECT_EQ(summary.waits.average, Seconds(75));
  EXPECT_DOUBLE_EQ(summary.allocation, 1.0);
  // The queue itself was only looked at.
  EXPECT_EQ(desk.queue().waiting(), 2U);
}

TEST(Forecast, AnotherGpuLetsThemStartAtOnce) {
  Desk desk({}, jobs::testing::fleet(1, 1));
  desk.submit(lasting(1'000, 100));
  desk.run();
  desk.submit(lasting(1'000, 30));
  const Forecast seen = look(desk, jobs::testing::fleet(2, 1));
  EXPECT_EQ(seen.jobs[1].starts, Seconds(0));
  EXPECT_EQ(seen.capacity, 2U * Share::kWhole);
}

TEST(Forecast, SaysWhoDoesNotStart) {
  Desk desk({}, jobs::testing::fleet(1, 1));
  desk.submit(lasting(2'000, 30));
  const Forecast seen = look(desk, jobs::testing::fleet(1, 1));
  EXPECT_EQ(seen.jobs[0].starts, std::nullopt);
  const ForecastSummary summary = summarise(seen, period_of(seen, seen), 10);
  EXPECT_EQ(summary.waits.not_started, 1U);
  EXPECT_EQ(summary.waits.median, std::nullopt);
}

TEST(Forecast, StopsWhenThereIsNoMoreTimeAndAtTheHorizon) {
  Desk desk({}, jobs::testing::fleet(1, 1));
  for (int i = 0; i < 5; ++i) desk.submit(lasting(1'000, 100));
  ForecastLimits limits;
  limits.most_events = 2;
  EXPECT_EQ(look(desk, jobs::testing::fleet(1, 1), limits).end, ForecastEnd::kOutOfTime);
  limits = {};
  limits.horizon = Seconds(250);
  const Forecast seen = look(desk, jobs::testing::fleet(1, 1), limits);
  EXPECT_EQ(seen.end, ForecastEnd::kHorizon);
  EXPECT_EQ(seen.reached, Seconds(250));
  EXPECT_EQ(seen.jobs[2].starts, Seconds(200));
  EXPECT_EQ(seen.jobs[3].starts, std::nullopt);
}

TEST(Forecast, AssumesLengthsFromWhatIsKnown) {
  model::Job job(model::JobId(1), "ada", spec(1'000), {});
  Lengths lengths = learn({{"ada", Seconds(5)}, {"ada", Seconds(9)}, {"ada", Seconds(7)}});
  EXPECT_EQ(length_of(job, lengths).length, Seconds(7));
  EXPECT_EQ(length_of(job, lengths).from, LengthFrom::kOwner);
  job.owner = "bob";
  EXPECT_EQ(length_of(job, lengths).from, LengthFrom::kEverybody);
  job.spec.time_limit = Seconds(20);
  EXPECT_EQ(length_of(job, lengths).from, LengthFrom::kTimeLimit);
  job.spec.expected = Seconds(90);
  EXPECT_EQ(length_of(job, lengths).from, LengthFrom::kExpected);
  EXPECT_EQ(length_of(job, lengths).length, Seconds(20));
  EXPECT_EQ(length_of(model::Job(model::JobId(2), "bob", spec(1), {}), {}).from,
            LengthFrom::kGuess);
}

// Whatever is submitted: never more is held than there is, and everybody who fits has run.
RC_GTEST_PROP(ForecastProperty, HoldsNoMoreThanThereIsAndComesToRest, ()) {
  Desk desk({}, jobs::testing::fleet(2, 2));
  const auto jobs = *rc::gen::inRange(1, 25);
  for (int i = 0; i < jobs; ++i) {
    desk.submit(lasting(static_cast<std::uint32_t>(*rc::gen::element(200, 500, 1'000, 2'000)),
                        *rc::gen::inRange(1, 500)),
                *rc::gen::element<std::string>("ada", "bob"));
    if (i == jobs / 2) desk.run();
  }
  const Forecast seen = look(desk, jobs::testing::fleet(2, 2));
  RC_ASSERT(seen.end == ForecastEnd::kAtRest);
  for (const ForecastJob& job : seen.jobs) {
    RC_ASSERT(job.starts.has_value() && job.ends.has_value() && *job.ends >= *job.starts);
  }
  const ForecastSummary summary = summarise(seen, period_of(seen, seen), 37);
  for (const double gpus : summary.allocated) RC_ASSERT(gpus <= 4.0 + 1e-9);
  RC_ASSERT(summary.allocation <= 1.0 + 1e-9);
}

}  // namespace
}  // namespace divvy::sim
