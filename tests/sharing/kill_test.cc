// Five hundred deaths by SIGKILL at random instants under load, of tenants and of the daemon: at
// the end nothing is held that nobody holds, and the one beside them never stood still.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include "sharing/sharing_machine.h"

namespace divvy::testing {
namespace {

constexpr int kDeaths = 500;
constexpr int kVictims = 4;           // at a time
constexpr int kDaemonDiesEvery = 25;  // rounds

// Watches a process's GPU time and keeps the longest time in which it got none.
class StallWatch {
 public:
  StallWatch(SharingMachine& machine, pid_t pid)
      : thread_([this, &machine, pid] { watch(machine, pid); }) {}
  ~StallWatch() { stop(); }
  double stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    return worst_ms_;
  }

 private:
  void watch(SharingMachine& machine, pid_t pid) {
    using Clock = std::chrono::steady_clock;
    std::uint64_t last = machine.gpu_ns(pid);
    auto moved = Clock::now();
    auto looked = moved;
    while (!stop_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto now = Clock::now();
      // A gap between two looks is this thread waiting for a CPU, and nobody's stall.
      if (now - looked > std::chrono::milliseconds(20)) moved += now - looked;
      looked = now;
      const std::uint64_t ns = machine.gpu_ns(pid);
      if (ns != last) moved = now;
      last = ns;
      worst_ms_ =
          std::max(worst_ms_, std::chrono::duration<double, std::milli>(now - moved).count());
    }
  }

  std::atomic<bool> stop_{false};
  double worst_ms_ = 0;
  std::thread thread_;
};

// A command that is killed while it starts a daemon in the background leaves one that is on its
// way, and neither listens nor has the lock yet. The machine sees to it that none outlives it.
TEST(Kill, ADaemonStartedInTheBackgroundEndsWithTheFixture) {
  for (int i = 0; i < 5; ++i) {
    SharingMachine machine("1xH200");
    (void)machine.spawn(std::string(DIVVYD_PROGRAM) + " --background 2>/dev/null");
  }
}

TEST(Kill, FiveHundredKilledTenantsReleaseEverythingAndDelayNobody) {
  const char* given = getenv("DIVVY_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(atoi(given)) : std::random_device()();
  SCOPED_TRACE("DIVVY_SEED=" + std::to_string(seed) + " replays this");
  std::mt19937 random(seed);
  SharingMachine machine("1xH200");
  machine.start_daemon();
  const auto survivor = machine.start("--gpu 0.5 --gpu-mem 8GiB --name survivor", "small");
  StallWatch stalls(machine, survivor->pid());

  const char* kinds[] = {"small", "long", "graph", "mixed"};
  int deaths = 0;
  for (int round = 1; deaths < kDeaths; ++round) {
    std::vector<std::unique_ptr<Tenant>> victims;
    for (int i = 0; i < kVictims; ++i) {
      victims.push_back(machine.spawn(std::string(DIVVY_PROGRAM) +
                                      " run --wait --gpu 0.1 --gpu-mem 8GiB -- " + LOAD_PROGRAM +
                                      " " + kinds[random() % 4] + " 2>/dev/null"));
    }
    // Some are hit while they start, some while they run.
    for (auto& victim : victims) {
      if (random() % 2 == 0) {
        EXPECT_TRUE(victim->says("ready"));
      }
    }
    if (round % kDaemonDiesEvery == 0) {
      machine.kill_daemon(SIGKILL);
      ++deaths;
      machine.start_daemon();
    }
    std::shuffle(victims.begin(), victims.end(), random);
    for (auto& victim : victims) {
      victim->send(SIGKILL);
      victim->wait();
      ++deaths;
    }
  }
  const std::uint64_t before = machine.gpu_ns(survivor->pid());
  EXPECT_TRUE(SharingMachine::eventually([&] { return machine.gpu_ns(survivor->pid()) > before; }));
  std::cout << "longest time without the GPU beside " << deaths << " deaths: " << stalls.stop()
            << " ms\n";
  EXPECT_TRUE(SharingMachine::eventually([&] { return machine.tenant_names() == "survivor "; }))
      << machine.output_of(std::string(DIVVY_PROGRAM) + " ps");
  // All the memory is free again: a slice of what the survivor leaves is granted.
  int status = -1;
  machine.output_of(
      std::string(DIVVY_PROGRAM) + " run --wait --gpu 0.5 --gpu-mem 120GiB -- true 2>&1", &status);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace divvy::testing
