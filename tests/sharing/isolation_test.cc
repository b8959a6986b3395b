// What the death of the daemon does to everybody: with the real daemon, the real shim and programs
// that know nothing of it, on simulated GPUs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>

#include "sharing/sharing_machine.h"

namespace divvy::testing {
namespace {

constexpr double kWarmUpSeconds = 0.7;

TEST(Recovery, TenantsGoOnWithoutTheDaemonAndAreFoundAgain) {
  SharingMachine machine("1xH200");
  machine.start_daemon();
  const auto small = machine.start("--gpu 0.3 --gpu-mem 4GiB --name small", "graph");
  const auto large = machine.start("--gpu 0.7 --gpu-mem 4GiB --name large", "graph");
  (void)shares_over(machine, {small.get(), large.get()}, kWarmUpSeconds);

  machine.kill_daemon(SIGKILL);
  EXPECT_TRUE(SharingMachine::eventually([&] {
    const auto alone = shares_over(machine, {small.get(), large.get()}, 0.3);
    return alone[0] > 200 && alone[1] > 200;
  })) << "nobody stands at a gate that nobody opens";

  machine.start_daemon();
  EXPECT_TRUE(SharingMachine::eventually([&] {
    const auto again = shares_over(machine, {small.get(), large.get()}, 0.5);
    return again[0] > 270 && again[0] < 330 && again[1] > 600;
  })) << "found again, with their shares";
  EXPECT_EQ(machine.tenant_names(), "small large ");
}

}  // namespace
}  // namespace divvy::testing
