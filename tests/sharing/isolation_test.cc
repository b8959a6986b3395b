// What the death of the daemon does to everybody: with the real daemon, the real shim and programs
// that know nothing of it, on simulated GPUs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdint>
#include <string>

#include "sharing/sharing_machine.h"

namespace divvy::testing {
namespace {

constexpr std::uint64_t kLong = 200'000'000;  // of GPU time, in ns: a hundred graphs

// Tenants whose launches pass gates.
int gated(SharingMachine& machine) {
  const std::string json = machine.output_of(std::string(DIVVY_PROGRAM) + " ps -o json");
  const std::string key = "\"gated\": true";
  int found = 0;
  for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Recovery, TenantsGoOnWithoutTheDaemonAndAreFoundAgain) {
  SharingMachine machine("1xH200");
  machine.start_daemon();
  const auto small = machine.start("--gpu 0.3 --gpu-mem 4GiB --name small", "graph");
  const auto large = machine.start("--gpu 0.7 --gpu-mem 4GiB --name large", "graph");
  ASSERT_TRUE(SharingMachine::eventually([&] { return gated(machine) == 2; }));

  machine.kill_daemon(SIGKILL);
  const std::uint64_t small_before = machine.gpu_ns(small->pid());
  const std::uint64_t large_before = machine.gpu_ns(large->pid());
  EXPECT_TRUE(SharingMachine::eventually([&] {
    return machine.gpu_ns(small->pid()) > small_before + kLong &&
           machine.gpu_ns(large->pid()) > large_before + kLong;
  })) << "nobody stands at a gate that nobody opens";

  machine.start_daemon();
  ASSERT_TRUE(SharingMachine::eventually([&] { return gated(machine) == 2; })) << "found again";
  EXPECT_EQ(machine.tenant_names(), "small large ");
  // How much time that takes is the machine's business; who had how much of it is the arbiter's.
  const std::uint64_t small_found = machine.gpu_ns(small->pid());
  const std::uint64_t large_found = machine.gpu_ns(large->pid());
  std::uint64_t of_small = 0;
  std::uint64_t of_large = 0;
  ASSERT_TRUE(SharingMachine::eventually([&] {
    of_small = machine.gpu_ns(small->pid()) - small_found;
    of_large = machine.gpu_ns(large->pid()) - large_found;
    return of_small + of_large > 4 * kLong;
  }));
  const double share = static_cast<double>(of_small) / static_cast<double>(of_small + of_large);
  EXPECT_NEAR(share, 0.3, 0.05) << "with their shares";
}

}  // namespace
}  // namespace divvy::testing
