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
  const auto training = house.start("--gpu 0.5 --gpu-mem 4GiB", "small");
  (void)shares_over(house, {service.get(), training.get()}, kWarmUpSeconds);
  const auto together = shares_over(house, {service.get(), training.get()}, kSeconds);
  // A request takes 1.8 ms and the pause 3 ms. In plain turns it would wait half a cycle.
  EXPECT_GE(together[0], 0.8 * alone);
  EXPECT_GE(together[1], 500);
}

TEST(Isolation, ATenantThatIsStoppedDoesNotHoldUpTheOther) {
  House house("1xH200");
  house.start_daemon();
  const auto stopped = house.start("--gpu 0.5 --gpu-mem 4GiB", "graph");
  const auto other = house.start("--gpu 0.5 --gpu-mem 4GiB", "graph");
  const auto share = [&] { return shares_over(house, {other.get()}, 0.3)[0]; };
  EXPECT_TRUE(House::eventually([&] { return share() < 600; })) << "they share";
  stopped->send(SIGSTOP);
  EXPECT_TRUE(House::eventually([&] { return share() > 900; })) << "it has all";
  stopped->send(SIGCONT);
  EXPECT_TRUE(House::eventually([&] { return share() < 600; })) << "they share again";
}

TEST(Isolation, ATenantThatHangsDoesNotHoldUpTheOther) {
  House house("1xH200");
  house.start_daemon();
  const auto stuck = house.start("--gpu 0.5 --gpu-mem 4GiB", "stuck");
  const auto other = house.start("--gpu 0.5 --gpu-mem 4GiB", "small");
  (void)shares_over(house, {other.get()}, kWarmUpSeconds);
  EXPECT_GE(shares_over(house, {other.get()}, kSeconds)[0], 900);
}

TEST(Isolation, ATenantThatDiesInItsLeaseGivesItUp) {
  House house("1xH200");
  house.start_daemon();
  auto dying = house.start("--gpu 0.7 --gpu-mem 4GiB", "long");
  const auto other = house.start("--gpu 0.3 --gpu-mem 4GiB", "small");
  (void)shares_over(house, {other.get()}, kWarmUpSeconds);
  dying->send(SIGKILL);
  dying->wait();
  EXPECT_TRUE(House::eventually([&] { return shares_over(house, {other.get()}, 0.2)[0] >= 950; }));
}

TEST(Recovery, TenantsGoOnWithoutTheDaemonAndAreFoundAgain) {
  House house("1xH200");
  house.start_daemon();
  const auto small = house.start("--gpu 0.3 --gpu-mem 4GiB --name small", "small");
  const auto large = house.start("--gpu 0.7 --gpu-mem 4GiB --name large", "small");
  (void)shares_over(house, {small.get(), large.get()}, kWarmUpSeconds);

  house.kill_daemon(SIGKILL);
  const auto alone = shares_over(house, {small.get(), large.get()}, kSeconds);
  EXPECT_GE(alone[0] + alone[1], 950) << "nobody stands at a gate that nobody opens";
  EXPECT_GE(alone[0], 200);

  house.start_daemon();
  EXPECT_TRUE(House::eventually([&] {
    const auto again = shares_over(house, {small.get(), large.get()}, 0.5);
    return again[0] > 280 && again[0] < 320 && again[1] > 650;
  })) << "found again, with their shares";
  EXPECT_EQ(house.tenant_names(), "small large ");
}

}  // namespace
}  // namespace divvy::testing
