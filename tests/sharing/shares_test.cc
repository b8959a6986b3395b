// Shares and caps as the simulated hardware counts them, in simulated time: real shim, real
// registration, real arbiter, and programs that know nothing of it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>

#include "sharing/clocked_machine.h"

namespace divvy::testing {
namespace {

constexpr double kPoint = 10;  // thousandths: one point of a hundred
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWarmUp = 300 * kMs;
constexpr std::uint64_t kGraph = 1'800'000;  // of the loads `graph` and `request`

bool has_long_kernels(const std::string& load) { return load == "long" || load == "mixed"; }

// Whoever comes first has the GPU to itself and runs ahead without gates; until that is done and
// paid for, the other has less.
std::uint64_t warm_up(const std::string& load) {
  return has_long_kernels(load) ? 1000 * kMs : kWarmUp;
}

// Long enough that a kernel of 50 ms on either side of its ends does not matter much.
std::uint64_t window(const std::string& load) {
  return has_long_kernels(load) ? 6000 * kMs : 2000 * kMs;
}

std::string share_text(int percent) {
  return "0." + std::string(percent < 10 ? "0" : "") + std::to_string(percent);
}

std::string slice(int percent, int gpu) {
  return "--gpu " + share_text(percent) + " --device " + std::to_string(gpu) + " --gpu-mem 4GiB";
}

// A kernel of 50 ms cannot be interrupted, and may lie on either side of the window's ends.
double slack(const std::string& load) {
  return has_long_kernels(load) ? 1000.0 * 50 * kMs / static_cast<double>(window(load)) : 0;
}

class Shares : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<double> measure(ClockedMachine& machine) {
    machine.advance(warm_up(GetParam()));
    std::vector<const Tenant*> all;
    for (const auto& tenant : tenants_) all.push_back(tenant.get());
    return machine.shares_while(window(GetParam()), all);
  }

  std::vector<std::unique_ptr<Tenant>> tenants_;
};

// Nine capped tenants at once, each alone on a GPU.
TEST_P(Shares, CapsFrom10To90PercentHoldWithinOnePoint) {
  ClockedMachine machine(9);
  for (int percent = 10; percent <= 90; percent += 10) {
    tenants_.push_back(machine.start("--cap " + slice(percent, percent / 10 - 1), GetParam()));
  }
  const std::vector<double> shares = measure(machine);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(shares[i], 100.0 * static_cast<double>(i + 1), kPoint + slack(GetParam()));
  }
}

// Also in its first moments: what it may have at once is 8 ms, or two fifths of its part of 100 ms.
TEST(Caps, HoldFromTheFirstLaunch) {
  for (const char* load : {"small", "graph"}) {
    ClockedMachine machine(9);
    std::vector<std::unique_ptr<Tenant>> tenants;
    std::vector<const Tenant*> all;
    for (int percent = 10; percent <= 90; percent += 10) {
      tenants.push_back(machine.start("--cap " + slice(percent, percent / 10 - 1), load));
      all.push_back(tenants.back().get());
    }
    const std::vector<double> shares = machine.shares_while(100 * kMs, all);
    for (std::size_t i = 0; i < 9; ++i) {
      const double share = 100.0 * static_cast<double>(i + 1);
      EXPECT_LE(shares[i], share + std::max(80.0, 0.4 * share) + kPoint) << load;
    }
  }
}

// Five pairs at once: 10/90 to 50/50.
TEST_P(Shares, PairsFrom10To50PercentGetTheirsWithinOnePoint) {
  ClockedMachine machine(5);
  for (int gpu = 0; gpu < 5; ++gpu) {
    const int first = 10 * (gpu + 1);
    tenants_.push_back(machine.start(slice(first, gpu), GetParam()));
    tenants_.push_back(machine.start(slice(100 - first, gpu), GetParam()));
  }
  const std::vector<double> shares = measure(machine);
  for (std::size_t gpu = 0; gpu < 5; ++gpu) {
    const double sum = shares[2 * gpu] + shares[2 * gpu + 1];
    EXPECT_NEAR(shares[2 * gpu] / sum * 1000, 100.0 * static_cast<double>(gpu + 1),
                kPoint + slack(GetParam()));
    EXPECT_GE(sum, 960) << "the GPU is kept busy";
  }
}

INSTANTIATE_TEST_SUITE_P(Loads, Shares, ::testing::Values("small", "long", "graph", "mixed"),
                         [](const auto& test) { return std::string(test.param); });

// What peers leave unlimited: cooperative and graph launches, launches with attributes, per-thread
// streams.
TEST(LaunchPaths, EveryWayOfLaunchingIsLimited) {
  const std::vector<std::string> ways = {"small", "ex", "cooperative", "thread", "graph"};
  ClockedMachine machine(static_cast<int>(ways.size()));
  std::vector<std::unique_ptr<Tenant>> tenants;
  std::vector<const Tenant*> all;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    tenants.push_back(machine.start("--cap " + slice(40, static_cast<int>(i)), ways[i]));
    all.push_back(tenants.back().get());
  }
  machine.advance(kWarmUp);
  const std::vector<double> shares = machine.shares_while(window("small"), all);
  for (std::size_t i = 0; i < ways.size(); ++i) EXPECT_NEAR(shares[i], 400, kPoint) << ways[i];
}

// What has passed the gate never waits for what stands before it.
TEST(LaunchPaths, StreamsThatWaitForEachOtherHaveTheirCap) {
  ClockedMachine machine(2);
  const auto low = machine.start("--cap " + slice(30, 0), "streams");
  const auto high = machine.start("--cap " + slice(60, 1), "streams");
  machine.advance(kWarmUp);
  const std::vector<double> shares = machine.shares_while(window("small"), {low.get(), high.get()});
  EXPECT_NEAR(shares[0], 300, kPoint);
  EXPECT_NEAR(shares[1], 600, kPoint);
}

TEST(Set, ChangesShareAndCapWhileEverybodyRuns) {
  ClockedMachine machine(1);
  const auto a = machine.start("--name a " + slice(30, 0), "small");
  const auto b = machine.start("--name b " + slice(50, 0), "small");
  const auto set = [&](const std::string& words) {
    int status = -1;
    machine.output_of(std::string(DIVVY_PROGRAM) + " set " + words + " 2>&1", &status);
    return status;
  };
  machine.advance(kWarmUp);
  ASSERT_EQ(set("b --gpu 0.2"), 0);
  ASSERT_EQ(set("a --gpu 0.8"), 0);
  machine.advance(kWarmUp);
  const auto shares = machine.shares_while(window("small"), {a.get(), b.get()});
  EXPECT_NEAR(shares[0] / (shares[0] + shares[1]) * 1000, 800, kPoint);

  ASSERT_EQ(set("a --cap --gpu 0.3"), 0);
  machine.advance(kWarmUp);
  const auto capped = machine.shares_while(window("small"), {a.get(), b.get()});
  EXPECT_NEAR(capped[0], 300, kPoint);
  EXPECT_GE(capped[1], 660) << "what the cap leaves goes to the other";
}

// How long requests wait, beside their own 1.8 ms, next to a tenant that always has work. Between
// two of them the service does nothing, for other times each time.
struct Waits {
  std::uint64_t mean = 0;
  std::uint64_t longest = 0;
};
Waits waits_of_requests(const std::string& service_class) {
  constexpr int kRequests = 50;
  ClockedMachine machine(1);
  const auto service = machine.start_service("--class " + service_class + " " + slice(50, 0));
  machine.watch(*service);
  const auto training = machine.start(slice(50, 0), "graph");
  machine.advance(kWarmUp);
  Waits waits;
  const std::uint64_t before = machine.gpu_ns(training->pid());
  for (std::uint64_t i = 0; i < kRequests; ++i) {
    const std::uint64_t wait = machine.time_to_serve(*service) - kGraph;
    waits.mean += wait / kRequests;
    waits.longest = std::max(waits.longest, wait);
    machine.advance((3 + i % 7) * kMs);
  }
  EXPECT_GT(machine.gpu_ns(training->pid()), before) << "and the other goes on";
  return waits;
}

TEST(Isolation, ALatencyTenantIsServedAtOnceBesideTraining) {
  const Waits at_once = waits_of_requests("latency");
  const Waits in_turns = waits_of_requests("batch");
  // It waits for what runs on the GPU, which is one graph of the other's at most, and for nobody's
  // turn. Two steps of the clock until the gate is seen to be open.
  EXPECT_LE(at_once.longest, kGraph + 320'000);
  EXPECT_GT(in_turns.longest, 2 * at_once.longest) << "there is nothing to be kept from";
  EXPECT_GT(in_turns.mean, 2 * at_once.mean);
}

TEST(Isolation, ATenantThatIsStoppedDoesNotHoldUpTheOther) {
  ClockedMachine machine(1);
  const auto stopped = machine.start(slice(50, 0), "graph");
  const auto other = machine.start(slice(50, 0), "graph");
  machine.watch(*stopped);
  machine.advance(kWarmUp);
  EXPECT_NEAR(machine.shares_while(1000 * kMs, {other.get()})[0], 500, kPoint) << "they share";
  machine.stop(*stopped);
  machine.advance(1500 * kMs);
  EXPECT_GE(machine.shares_while(1000 * kMs, {other.get()})[0], 970) << "it has all";
  stopped->send(SIGCONT);
  machine.advance(1500 * kMs);
  EXPECT_NEAR(machine.shares_while(1000 * kMs, {other.get()})[0], 500, kPoint)
      << "they share again";
}

TEST(Isolation, ATenantThatHangsDoesNotHoldUpTheOther) {
  ClockedMachine machine(1);
  const auto stuck = machine.start(slice(50, 0), "stuck");
  const auto other = machine.start(slice(50, 0), "small");
  // No batch of it has ended for a second: it has no more turns.
  machine.advance(1500 * kMs);
  EXPECT_GE(machine.shares_while(window("small"), {other.get()})[0], 970);
}

TEST(Isolation, ATenantThatDiesInItsLeaseGivesItUp) {
  ClockedMachine machine(1);
  auto dying = machine.start(slice(70, 0), "long");
  const auto other = machine.start(slice(30, 0), "graph");
  machine.advance(700 * kMs);
  dying->send(SIGKILL);
  dying->wait();
  EXPECT_GE(machine.shares_while(window("graph"), {other.get()})[0], 980);
}

}  // namespace
}  // namespace divvy::testing
