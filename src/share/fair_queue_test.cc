#include "share/fair_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace divvy::share {
namespace {

constexpr double kMs = 1e6;

FairQueue::Terms terms(double weight, double request_ns = 12 * kMs) {
  return {.weight = weight,
          .request_ns = request_ns,
          .most_ahead_ns = request_ns,
          .most_behind_ns = 1000 * request_ns};
}

// Serves whoever is first, a batch at a time and for a whole request, as the arbiter does.
class Served {
 public:
  explicit Served(std::vector<double> weights) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      queue.add(i, terms(weights[i]));
      here.push_back(true);
      had.push_back(0);
    }
  }

  void batch(double ns) {
    for (std::size_t i = 0; i < here.size(); ++i) queue.set_active(i, here[i]);
    const bool goes_on = turn_ != FairQueue::kNobody && here[turn_] && !queue.used_up(turn_);
    if (!goes_on) {
      if (turn_ != FairQueue::kNobody && queue.used_up(turn_)) queue.renew(turn_);
      turn_ = queue.first(here, turn_);
    }
    if (turn_ == FairQueue::kNobody) return;
    queue.serve(turn_, ns);
    had[turn_] += ns;
    queue.settle();
  }

  FairQueue queue;
  std::vector<bool> here;
  std::vector<double> had;

 private:
  std::size_t turn_ = FairQueue::kNobody;
};

TEST(FairQueue, ServesByWeight) {
  Served served({0.1, 0.2, 0.7});
  for (int i = 0; i < 6000; ++i) served.batch(2 * kMs);
  EXPECT_NEAR(served.had[0] / (12'000 * kMs), 0.1, 0.002);
  EXPECT_NEAR(served.had[1] / (12'000 * kMs), 0.2, 0.002);
  EXPECT_NEAR(served.had[2] / (12'000 * kMs), 0.7, 0.002);
}

TEST(FairQueue, ASingleTenantHasNoLag) {
  Served served({0.3, 0.7});
  served.here[1] = false;
  for (int i = 0; i < 10'000; ++i) served.batch(2 * kMs);
  EXPECT_NEAR(served.queue.lag_ns(0), 0, 1);
}

TEST(FairQueue, NegativeLagDecaysAsOthersAreServed) {
  Served served({0.5, 0.5, 0.5});
  served.here[2] = false;
  served.batch(10 * kMs);
  const std::size_t ran = served.had[0] > 0 ? 0 : 1;
  ASSERT_NEAR(served.queue.lag_ns(ran), -5 * kMs, 1);
  served.here[ran] = false;
  for (int i = 0; i < 4; ++i) served.batch(2 * kMs);
  EXPECT_NEAR(served.queue.lag_ns(ran), -1 * kMs, 1) << "half of 8 ms";
  for (int i = 0; i < 4; ++i) served.batch(2 * kMs);
  EXPECT_NEAR(served.queue.lag_ns(ran), 0, 1);
}

TEST(FairQueue, PositiveLagSurvivesAPauseUpToOneRequest) {
  FairQueue queue;
  queue.add(0, terms(0.5));
  queue.add(1, terms(0.5));
  queue.set_active(0, true);
  queue.set_active(1, true);
  queue.serve(0, 100 * kMs);
  queue.settle();
  ASSERT_GT(queue.lag_ns(1), 12 * kMs);
  queue.set_active(1, false);
  queue.settle();
  EXPECT_NEAR(queue.lag_ns(1), 12 * kMs, 1);
  queue.serve(0, 100 * kMs);
  queue.settle();
  EXPECT_NEAR(queue.lag_ns(1), 12 * kMs, 1);
}

TEST(FairQueue, LeavingAndRejoiningAtOnceChangesNoLag) {
  FairQueue queue;
  for (std::size_t i = 0; i < 3; ++i) {
    queue.add(i, terms(0.2 + 0.1 * static_cast<double>(i)));
    queue.set_active(i, true);
  }
  queue.serve(2, 5 * kMs);
  queue.settle();
  const std::vector<double> before = {queue.lag_ns(0), queue.lag_ns(1), queue.lag_ns(2)};
  queue.set_active(2, false);
  queue.settle();
  queue.set_active(2, true);
  queue.settle();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(queue.lag_ns(i), before[i], 1);
}

// Whoever comes and goes, and however many: nobody with work is behind its part by more than its
// request and what cannot be interrupted, nor ahead by more.
TEST(FairQueue, LagsStayWithinARequestForEveryHistory) {
  constexpr double kBatch = 2 * kMs;
  const bool held = rc::check([&] {
    const auto count = *rc::gen::inRange<std::size_t>(2, 9);
    std::vector<double> weights;
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back(*rc::gen::inRange(1, 100) / 100.0);
    }
    Served served(weights);
    const auto moves = *rc::gen::container<std::vector<std::uint32_t>>(
        200, rc::gen::inRange<std::uint32_t>(0, 1 << 20));
    for (const std::uint32_t move : moves) {
      const std::size_t who = move % count;
      if (move % 3 == 0) served.here[who] = !served.here[who];
      for (std::uint32_t i = 0; i < move / count % 12; ++i) served.batch(kBatch);
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (!served.queue.active(i)) continue;
        const double lag = served.queue.lag_ns(i);
        sum += lag;
        RC_ASSERT(lag <= 2 * (12 * kMs + kBatch));
        RC_ASSERT(lag >= -2 * (12 * kMs + kBatch));
      }
      RC_ASSERT(std::abs(sum) < 1);
    }
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace divvy::share
