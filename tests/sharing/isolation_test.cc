// What one tenant can do to another, and what the death of anybody does to everybody: with the real
// daemon, the real shim and programs that know nothing of it, on simulated GPUs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>

#include "sharing/house.h"

namespace divvy::testing {
namespace {

constexpr double kWarmUpSeconds = 0.7;
constexpr double kSeconds = 2;

TEST(Isolation, ALatencyTenantIsServedAtOnceBesideTraining) {
  House house("1xH200");
  house.start_daemon();
  const auto service = house.start("--gpu 0.5 --gpu-mem 4GiB --class latency", "request");
  (void)shares_over(house, {service.get()}, kWarmUpSeconds);
  const double alone = shares_over(house, {service.get()}, kSeconds)[0];
  const auto training = house.start("--gpu 0.5 --gpu-mem 4GiB", "graph");
  // A request takes 1.8 ms and the pause 3 ms. In plain turns it would wait for half a cycle each
  // time, and have a third of this.
  EXPECT_TRUE(House::eventually([&] {
    const auto together = shares_over(house, {service.get(), training.get()}, kSeconds);
    return together[0] >= 0.75 * alone && together[1] >= 450;
  }));
}

TEST(Isolation, ATenantThatIsStoppedDoesNotHoldUpTheOther) {
  House house("1xH200");
  house.start_daemon();
  const auto stopped = house.start("--gpu 0.5 --gpu-mem 4GiB", "graph");
  const auto other = house.start("--gpu 0.5 --gpu-mem 4GiB", "graph");
  const auto share = [&] { return shares_over(house, {other.get()}, 0.3)[0]; };
  EXPECT_TRUE(House::eventually([&] { return share() < 600; })) << "they share";
  house.stop(*stopped);
  EXPECT_TRUE(House::eventually([&] { return share() > 900; })) << "it has all";
  stopped->send(SIGCONT);
  EXPECT_TRUE(House::eventually([&] { return share() < 600; })) << "they share again";
}

TEST(Recovery, TenantsGoOnWithoutTheDaemonAndAreFoundAgain) {
  House house("1xH200");
  house.start_daemon();
  const auto small = house.start("--gpu 0.3 --gpu-mem 4GiB --name small", "graph");
  const auto large = house.start("--gpu 0.7 --gpu-mem 4GiB --name large", "graph");
  (void)shares_over(house, {small.get(), large.get()}, kWarmUpSeconds);

  house.kill_daemon(SIGKILL);
  EXPECT_TRUE(House::eventually([&] {
    const auto alone = shares_over(house, {small.get(), large.get()}, 0.3);
    return alone[0] > 200 && alone[1] > 200;
  })) << "nobody stands at a gate that nobody opens";

  house.start_daemon();
  EXPECT_TRUE(House::eventually([&] {
    const auto again = shares_over(house, {small.get(), large.get()}, 0.5);
    return again[0] > 270 && again[0] < 330 && again[1] > 600;
  })) << "found again, with their shares";
  EXPECT_EQ(house.tenant_names(), "small large ");
}

}  // namespace
}  // namespace divvy::testing
