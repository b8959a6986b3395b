// Shares and caps as the simulated hardware counts them, in simulated time: real shim, real
// registration, real arbiter, and programs that know nothing of it.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sharing/clocked_house.h"

namespace divvy::testing {
namespace {

constexpr double kPoint = 10;  // thousandths: one point of a hundred
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWarmUp = 1500 * kMs;

bool has_long_kernels(const std::string& load) { return load == "long" || load == "mixed"; }

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

// Time waits for the programs, but the shim closes a batch that nobody adds to by the clock on the
// wall. A machine that gives its thread no core for a while shows in one stretch, not in all.
constexpr int kStretches = 4;

class Shares : public ::testing::TestWithParam<const char*> {
 protected:
  // The shares of the first stretch in which they are as they should be, or of the last.
  template <typename Good>
  std::vector<double> measure(ClockedHouse& house, const Good& good) {
    house.advance(kWarmUp);
    std::vector<const Tenant*> all;
    for (const auto& tenant : tenants_) all.push_back(tenant.get());
    std::vector<double> shares;
    for (int i = 0; i < kStretches; ++i) {
      shares = house.shares_while(window(GetParam()), all);
      if (good(shares)) break;
    }
    return shares;
  }
  [[nodiscard]] static double tolerance() { return kPoint + slack(GetParam()); }

  std::vector<std::unique_ptr<Tenant>> tenants_;
};

// Nine capped tenants at once, each alone on a GPU.
TEST_P(Shares, CapsFrom10To90PercentHoldWithinOnePoint) {
  ClockedHouse house(9);
  for (int percent = 10; percent <= 90; percent += 10) {
    tenants_.push_back(house.start("--cap " + slice(percent, percent / 10 - 1), GetParam()));
  }
  const auto promised = [](std::size_t i) { return 100.0 * static_cast<double>(i + 1); };
  const std::vector<double> shares = measure(house, [&](const std::vector<double>& seen) {
    for (std::size_t i = 0; i < 9; ++i) {
      if (std::abs(seen[i] - promised(i)) > tolerance()) return false;
    }
    return true;
  });
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(shares[i], promised(i), tolerance());
}

// Five pairs at once: 10/90 to 50/50.
TEST_P(Shares, PairsFrom10To50PercentGetTheirsWithinOnePoint) {
  ClockedHouse house(5);
  for (int gpu = 0; gpu < 5; ++gpu) {
    const int first = 10 * (gpu + 1);
    tenants_.push_back(house.start(slice(first, gpu), GetParam()));
    tenants_.push_back(house.start(slice(100 - first, gpu), GetParam()));
  }
  const auto promised = [](std::size_t gpu) { return 100.0 * static_cast<double>(gpu + 1); };
  const auto sum = [](const std::vector<double>& seen, std::size_t gpu) {
    return seen[2 * gpu] + seen[2 * gpu + 1];
  };
  const auto part = [&sum](const std::vector<double>& seen, std::size_t gpu) {
    return seen[2 * gpu] / sum(seen, gpu) * 1000;
  };
  const std::vector<double> shares = measure(house, [&](const std::vector<double>& seen) {
    for (std::size_t gpu = 0; gpu < 5; ++gpu) {
      if (std::abs(part(seen, gpu) - promised(gpu)) > tolerance() || sum(seen, gpu) < 960) {
        return false;
      }
    }
    return true;
  });
  for (std::size_t gpu = 0; gpu < 5; ++gpu) {
    EXPECT_NEAR(part(shares, gpu), promised(gpu), tolerance());
    EXPECT_GE(sum(shares, gpu), 960) << "the GPU is kept busy";
  }
}

INSTANTIATE_TEST_SUITE_P(Loads, Shares, ::testing::Values("small", "long", "graph", "mixed"),
                         [](const auto& test) { return std::string(test.param); });

// What peers leave unlimited: cooperative and graph launches, launches with attributes, per-thread
// streams.
TEST(LaunchPaths, EveryWayOfLaunchingIsLimited) {
  const std::vector<std::string> ways = {"small", "ex", "cooperative", "thread", "graph"};
  ClockedHouse house(static_cast<int>(ways.size()));
  std::vector<std::unique_ptr<Tenant>> tenants;
  std::vector<const Tenant*> all;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    tenants.push_back(house.start("--cap " + slice(40, static_cast<int>(i)), ways[i]));
    all.push_back(tenants.back().get());
  }
  house.advance(kWarmUp);
  const std::vector<double> shares = house.shares_while(window("small"), all);
  for (std::size_t i = 0; i < ways.size(); ++i) EXPECT_NEAR(shares[i], 400, kPoint) << ways[i];
}

TEST(Set, ChangesShareAndCapWhileEverybodyRuns) {
  ClockedHouse house(1);
  const auto a = house.start("--name a " + slice(30, 0), "small");
  const auto b = house.start("--name b " + slice(50, 0), "small");
  const auto set = [&](const std::string& words) {
    int status = -1;
    house.output_of(std::string(DIVVY_PROGRAM) + " set " + words + " 2>&1", &status);
    return status;
  };
  house.advance(kWarmUp);
  ASSERT_EQ(set("b --gpu 0.2"), 0);
  ASSERT_EQ(set("a --gpu 0.8"), 0);
  house.advance(kWarmUp / 3);
  const auto shares = house.shares_while(window("small"), {a.get(), b.get()});
  EXPECT_NEAR(shares[0] / (shares[0] + shares[1]) * 1000, 800, kPoint);

  ASSERT_EQ(set("a --cap --gpu 0.3"), 0);
  house.advance(kWarmUp / 3);
  const auto capped = house.shares_while(window("small"), {a.get(), b.get()});
  EXPECT_NEAR(capped[0], 300, kPoint);
  EXPECT_GE(capped[1], 660) << "what the cap leaves goes to the other";
}

}  // namespace
}  // namespace divvy::testing
