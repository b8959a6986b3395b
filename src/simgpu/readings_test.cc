#include "simgpu/readings.h"

#include "abi/nvml.h"
#include "simgpu/fault.h"
#include "simgpu/manual_clock.h"
#include "simgpu/state_fixture.h"

namespace divvy::simgpu {
namespace {

// On the manual clock, so that the past is exactly what the test makes it.
class ReadingsTest : public StateFixture {
 protected:
  void start_manual(const std::string& model) {
    start_yaml("clock: manual\ngpus: [{model: " + model + "}]\n");
    // Away from the beginning, where there is no past to look at.
    advance(100 * kBucketNs);
  }

  void advance(uint64_t ns) {
    std::string error;
    ASSERT_TRUE(advance_manual_clock(state(), ns, &error)) << error;
  }

  // The GPU was busy for this many thousandths of the last `buckets` buckets.
  void work(int buckets, uint64_t permille) {
    const uint64_t now = now_ns(shared());
    for (int i = 1; i <= buckets; ++i) {
      const uint64_t start = (now / kBucketNs - static_cast<uint64_t>(i)) * kBucketNs;
      add_busy(gpu(0).buckets, start, start + kBucketNs * permille / 1000);
      gpu(0).busy_ns.fetch_add(kBucketNs * permille / 1000);
    }
  }

  const Shared& shared() { return state().shared(); }
};

TEST_F(ReadingsTest, AnIdleGpuIsCoolAndSlow) {
  start_manual("H200");
  EXPECT_EQ(utilization_percent(shared(), gpu(0)), 0U);
  EXPECT_EQ(temperature_c(shared(), gpu(0)), 30);
  EXPECT_EQ(power_mw(shared(), gpu(0)), gpu(0).spec.idle_power_mw);
  EXPECT_EQ(sm_clock_mhz(shared(), gpu(0)), 345U);
  EXPECT_EQ(clock_event_reasons(shared(), gpu(0)), nvmlClocksEventReasonGpuIdle);
}

TEST_F(ReadingsTest, ABusyGpuIsHotAndFast) {
  start_manual("H200");
  work(kBuckets - 1, 1000);
  EXPECT_EQ(utilization_percent(shared(), gpu(0)), 100U);
  EXPECT_EQ(temperature_c(shared(), gpu(0)), 65);
  EXPECT_EQ(power_mw(shared(), gpu(0)), 450'000U);
  EXPECT_EQ(sm_clock_mhz(shared(), gpu(0)), 1980U);
  EXPECT_EQ(clock_event_reasons(shared(), gpu(0)), nvmlClocksEventReasonNone);
}

TEST_F(ReadingsTest, UtilisationIsTheBusyPartOfTheWindow) {
  start_manual("H200");
  work(kUtilizationBuckets, 300);
  EXPECT_EQ(utilization_percent(shared(), gpu(0)), 30U);
}

TEST_F(ReadingsTest, WarmthFollowsMoreSlowlyThanUtilisation) {
  start_manual("H200");
  work(kUtilizationBuckets, 1000);
  EXPECT_EQ(utilization_percent(shared(), gpu(0)), 100U);
  EXPECT_GT(temperature_c(shared(), gpu(0)), 30);
  EXPECT_LT(temperature_c(shared(), gpu(0)), 45);
}

TEST_F(ReadingsTest, EnergyIsTheIntegralOfPower) {
  start_manual("H200");
  const uint64_t before = energy_mj(shared(), gpu(0));
  advance(10'000'000'000);
  EXPECT_NEAR(static_cast<double>(energy_mj(shared(), gpu(0)) - before), 750'000, 2);
  gpu(0).busy_ns.fetch_add(10'000'000'000);
  EXPECT_NEAR(static_cast<double>(energy_mj(shared(), gpu(0)) - before), 4'500'000, 2);
}

TEST_F(ReadingsTest, AnOverheatedGpuSlowsDownAndSaysWhy) {
  start_manual("H200");
  work(kBuckets - 1, 1000);
  set_temperature(state(), 0, 90);
  EXPECT_EQ(temperature_c(shared(), gpu(0)), 90);
  EXPECT_EQ(sm_clock_mhz(shared(), gpu(0)), 990U);
  EXPECT_NE(clock_event_reasons(shared(), gpu(0)) & nvmlClocksThrottleReasonHwThermalSlowdown, 0U);
}

TEST_F(ReadingsTest, ALowerPowerLimitHolds) {
  start_manual("H200");
  work(kBuckets - 1, 1000);
  gpu(0).settings.power_limit_mw.store(400'000);
  EXPECT_EQ(power_mw(shared(), gpu(0)), 400'000U);
  EXPECT_NE(clock_event_reasons(shared(), gpu(0)) & nvmlClocksEventReasonSwPowerCap, 0U);
}

TEST_F(ReadingsTest, OnlyGddrCardsChangeTheirPowerState) {
  start_manual("L4");
  EXPECT_EQ(performance_state(shared(), gpu(0)), 8U);
  work(kUtilizationBuckets, 500);
  EXPECT_EQ(performance_state(shared(), gpu(0)), 0U);
}

}  // namespace
}  // namespace divvy::simgpu
