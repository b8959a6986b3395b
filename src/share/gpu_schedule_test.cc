#include "share/gpu_schedule.h"
#include "base/sanitized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "share/gpu_model.h"

namespace divvy::share {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;
// One point of a hundred, in thousandths.
constexpr double kPoint = 10;

SliceTerms share(std::uint32_t thousandths) { return {.share = thousandths}; }
SliceTerms cap(std::uint32_t thousandths) { return {.share = thousandths, .capped = true}; }
SliceTerms latency(std::uint32_t thousandths) {
  return {.share = thousandths, .tenant_class = TenantClass::kLatency};
}

// Named loads: what a launch-bound, a long-kernel, a graph and a mixed program look like to the
// schedule.
const Program kSmallKernels{.kernel_ns = 10'000, .cpu_ns = 4'000};
const Program kLongKernels{.kernel_ns = 50 * kMs, .cpu_ns = 10'000};
const Program kGraphs{.kernel_ns = 1'800'000, .cpu_ns = 10'000};
const Program kSynchronizing{.kernel_ns = 60'000, .cpu_ns = 5'000, .kernels_per_sync = 400};
const Program kLaunchBound{.kernel_ns = 5'000, .cpu_ns = 8'000};

TEST(GpuSchedule, WhoIsAloneRunsWithoutGates) {
  GpuModel gpu;
  gpu.add(kSmallKernels, share(300));
  gpu.run(100 * kMs);
  gpu.mark();
  gpu.run(kSecond);
  EXPECT_FALSE(gpu.schedule.gate(0).gated);
  EXPECT_NEAR(gpu.share(0), 1000, kPoint);
  EXPECT_FALSE(gpu.schedule.next_in_ns().has_value()) << "nothing to watch";
}

// The schedule is not asked while nobody has work: a pause is no GPU time of whoever ends it.
TEST(GpuSchedule, ADaemonPauseIsChargedToNobody) {
  GpuSchedule schedule;
  const auto seat = schedule.add(cap(100));
  const GpuSchedule::Seen idle{.present = true, .told = true};
  GpuSchedule::Seen busy{.present = true,
                         .wants = true,
                         .running = true,
                         .waiting = true,
                         .told = true,
                         .processes = 1};
  schedule.step(kMs, {idle});
  EXPECT_FALSE(schedule.next_in_ns().has_value());
  std::uint64_t now = 51 * kMs;
  schedule.step(now, {busy});
  EXPECT_LE(schedule.account(seat).used_ns, schedule.tuning().calm_poll_ns);
  EXPECT_TRUE(schedule.gate(seat).open);
  // From then on all that passes is charged, however late the next look is.
  now += 3 * kMs;
  schedule.step(now, {busy});
  EXPECT_GE(schedule.account(seat).used_ns, 3 * kMs);
}

// Memory operations around a batch take the GPU's time, and are nobody's.
TEST(GpuSchedule, WhatTheGatesOfShortBatchesTakeIsNotCharged) {
  const auto charged = [](std::uint32_t batches_a_look, std::uint64_t looks_a_batch = 1) {
    GpuSchedule schedule;
    const auto seat = schedule.add(cap(500));
    GpuSchedule::Seen seen{.present = true,
                           .wants = true,
                           .running = true,
                           .waiting = true,
                           .told = true,
                           .processes = 1};
    schedule.step(kMs, {seen});
    schedule.step(2 * kMs, {seen});  // it got on the GPU in between, which is nobody's either
    const std::uint64_t before = schedule.account(seat).used_ns;
    for (std::uint64_t i = 1; i <= 100 * looks_a_batch; ++i) {
      if (i % looks_a_batch == 0) seen.finished += batches_a_look;
      schedule.step(2 * kMs + i * 100'000 / looks_a_batch, {seen});
    }
    // What the last batch leaves to the looks after it.
    for (std::uint64_t i = 1; i < looks_a_batch; ++i) {
      schedule.step(12 * kMs + i * 20'000, {seen});
    }
    return schedule.account(seat).used_ns - before;
  };
  EXPECT_EQ(charged(0), 10 * kMs);
  EXPECT_EQ(charged(1), 10 * kMs - 100 * GpuSchedule::Tuning{}.gate_ns);
  EXPECT_EQ(charged(1, 5), 10 * kMs + 4 * 20'000 - 100 * GpuSchedule::Tuning{}.gate_ns);
  EXPECT_EQ(charged(1'000), 9 * kMs) << "empty batches are no way not to be charged";
}

// Its gate is open, what it launched has not come to it yet, and the GPU is not kept idle for it.
TEST(GpuSchedule, ATenantBeforeItsFirstBatchDelaysNobody) {
  GpuSchedule schedule;
  const auto works = schedule.add(share(500));
  const auto comes = schedule.add(share(500));
  std::vector<GpuSchedule::Seen> seen(2);
  constexpr std::uint64_t kLook = 20'000;
  std::uint64_t closed_ns = 0;
  for (std::uint64_t now = kMs; now < 60 * kMs; now += kLook) {
    const bool open = schedule.gate(works).open;
    if (!open) closed_ns += kLook;
    seen[works] = {.present = true,
                   .wants = true,
                   .running = open,
                   .waiting = true,
                   .held = !open,
                   .told = true,
                   .processes = open ? 1u : 0u,
                   .finished = static_cast<std::uint32_t>(now / kLook)};
    if (now > 20 * kMs) {
      seen[comes] = {.present = true, .wants = true, .waiting = true, .held = true, .told = true};
    }
    schedule.step(now, seen);
  }
  EXPECT_LE(closed_ns, kMs);
}

class Caps : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Caps, HoldWithinAPointForEveryKindOfLoad) {
  for (const Program& program : {kSmallKernels, kLongKernels, kGraphs, kSynchronizing}) {
    GpuModel gpu;
    gpu.add(program, cap(GetParam()));
    gpu.run(kSecond);
    gpu.mark();
    gpu.run(20 * kSecond);
    EXPECT_NEAR(gpu.share(0), GetParam(), kPoint) << "kernels of " << program.kernel_ns << " ns";
  }
}

TEST_P(Caps, BurstNoMoreThanAFewMilliseconds) {
  GpuModel gpu;
  gpu.add({.kernel_ns = 50'000, .cpu_ns = 4'000, .kernels_per_sync = 1'000'000}, cap(GetParam()));
  gpu.run(100 * kMs);
  EXPECT_NEAR(gpu.share(0), GetParam(), 5 * kPoint);
}

constexpr std::uint32_t kSharesApart = kSanitized ? 400 : 100;

INSTANTIATE_TEST_SUITE_P(From10To90Percent, Caps, testing::Range(100U, 901U, kSharesApart));

class Pairs : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Pairs, GetTheirSharesWithinAPointAndLoseLittle) {
  const std::uint32_t first = GetParam();
  for (const Program& program : {kSmallKernels, kGraphs, kSynchronizing}) {
    GpuModel gpu;
    gpu.add(program, share(first));
    gpu.add(program, share(1000 - first));
    gpu.run(kSecond);
    gpu.mark();
    gpu.run(20 * kSecond);
    const double sum = gpu.share(0) + gpu.share(1);
    EXPECT_GE(sum, 980) << "kernels of " << program.kernel_ns << " ns";
    EXPECT_NEAR(gpu.share(0) / sum * 1000, first, kPoint);
    // One that waits for its results every 24 ms also loses the hand-overs at each of them.
    const double lost = program.kernels_per_sync == 0 ? kPoint : 1.2 * kPoint;
    EXPECT_GE(gpu.share(0), first - lost);
    EXPECT_GE(gpu.share(1), 1000 - first - lost);
  }
}

TEST_P(Pairs, OfLongAndShortKernelsGetTheirShares) {
  const std::uint32_t first = GetParam();
  GpuModel gpu;
  gpu.switch_ns = 0;
  gpu.add(kLongKernels, share(first));
  gpu.add(kSmallKernels, share(1000 - first));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(30 * kSecond);
  // Who of the two is first when a kernel of 50 ms outlasts its turn is the hardware's decision.
  EXPECT_NEAR(gpu.share(0), first, 2 * kPoint);
  EXPECT_NEAR(gpu.share(1), 1000 - first, 2 * kPoint);
}

INSTANTIATE_TEST_SUITE_P(From10To90Percent, Pairs, testing::Range(100U, 901U, kSharesApart));

TEST(GpuSchedule, FourTenantsGet10203040) {
  GpuModel gpu;
  for (const std::uint32_t part : {100u, 200u, 300u, 400u}) gpu.add(kSmallKernels, share(part));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(20 * kSecond);
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(gpu.share(i), 100.0 * static_cast<double>(i + 1) - kPoint);
    sum += gpu.share(i);
  }
  EXPECT_GE(sum, 975);
}

TEST(GpuSchedule, CountsEveryWaitForAGateAndEveryTurn) {
  GpuModel gpu;
  gpu.add({}, {.share = 500});
  gpu.add({}, {.share = 500});
  gpu.run(2'000'000'000);
  const auto count = [](const DurationCounts& counts) {
    return std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
  };
  std::uint64_t waits = 0;
  for (const auto& tenant : gpu.tenants) {
    const GpuSchedule::Account& account = gpu.schedule.account(tenant.seat);
    waits += count(account.waits);
    // The wait that goes on is counted when it ends.
    EXPECT_NEAR(static_cast<double>(account.waits.sum_ns), static_cast<double>(account.waited_ns),
                40e6);
  }
  EXPECT_GT(waits, 50U);
  EXPECT_NEAR(static_cast<double>(count(gpu.schedule.turns())), static_cast<double>(waits), 5.0);
  // One request, or two where both are due at the same time.
  const auto request = static_cast<double>(GpuSchedule::Tuning{}.request_ns);
  const auto turn = static_cast<double>(gpu.schedule.turns().sum_ns / count(gpu.schedule.turns()));
  EXPECT_GE(turn, request);
  EXPECT_LE(turn, 2.2 * request);
}

TEST(GpuSchedule, AWaitThatEndsWithItsTenantIsNoneForALease) {
  GpuSchedule schedule;
  const auto first = schedule.add({.share = 500});
  const auto second = schedule.add({.share = 500});
  GpuSchedule::Seen runs{.present = true, .wants = true, .running = true};
  GpuSchedule::Seen stands{.present = true, .wants = true, .waiting = true, .held = true};
  for (std::uint64_t now = 1'000; now < 5'000'000; now += 1'000'000) {
    schedule.step(now, {runs, stands});
  }
  ASSERT_FALSE(schedule.gate(second).open);
  schedule.step(5'000'000, {runs, GpuSchedule::Seen{.present = true}});
  EXPECT_EQ(schedule.account(second).waits, DurationCounts{});
  EXPECT_EQ(schedule.account(first).waits, DurationCounts{});
}

TEST(GpuSchedule, UnusedComputeGoesToWhoCanUseIt) {
  GpuModel gpu;
  // Wants a tenth of the GPU at most: 1 ms of work, then 9 ms of nothing.
  gpu.add({.kernel_ns = 50'000, .cpu_ns = 4'000, .kernels_per_sync = 20, .pause_ns = 9 * kMs},
          share(700));
  gpu.add(kSmallKernels, share(300));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(10 * kSecond);
  EXPECT_GE(gpu.share(1), 850);
  EXPECT_GE(gpu.share(0) + gpu.share(1), 950);
}

TEST(GpuSchedule, LaunchBoundTenantsFillEachOthersGaps) {
  GpuModel gpu;
  gpu.switch_ns = 20'000;
  gpu.add(kLaunchBound, share(500));  // alone it would use 5/8 of the GPU
  gpu.add(kLaunchBound, share(500));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(10 * kSecond);
  EXPECT_GE(gpu.share(0), 312) << "at least half of what it does alone";
  EXPECT_GE(gpu.share(1), 312);
  EXPECT_GE(gpu.share(0) + gpu.share(1), 930) << "alone each would use 625";
}

TEST(GpuSchedule, LatencyClassRunsAtOnceAndTrainingGetsTheRest) {
  GpuModel gpu;
  // A request of 1.8 ms every 5 ms.
  gpu.add({.kernel_ns = 1'800'000, .cpu_ns = 1'000, .kernels_per_sync = 1, .pause_ns = 3'200'000},
          latency(400));
  gpu.add(kSmallKernels, share(600));
  gpu.run(kSecond);
  gpu.mark();
  const std::uint64_t before = gpu.tenants[0].kernels_done;
  gpu.tenants[0].longest_wait_ns = 0;
  gpu.run(10 * kSecond);
  const double requests = static_cast<double>(gpu.tenants[0].kernels_done - before);
  EXPECT_GE(requests, 10e9 / 5.8e6) << "each is late by little more than a batch";
  EXPECT_LE(gpu.tenants[0].longest_wait_ns, kMs);
  EXPECT_GE(gpu.share(1), 560);
}

TEST(GpuSchedule, LatencyClassBeyondItsShareDoesNotTakeAnothersGuarantee) {
  GpuModel gpu;
  gpu.add(kGraphs, latency(300));  // wants everything, all the time
  gpu.add(kSmallKernels, share(700));
  gpu.run(2 * kSecond);
  gpu.mark();
  gpu.run(20 * kSecond);
  EXPECT_GE(gpu.share(1), 700 - 2 * kPoint);
  EXPECT_GE(gpu.share(0), 250);
}

TEST(GpuSchedule, ALatencyTenantThatStopsInMidBatchDoesNotKeepTheOthersOff) {
  GpuSchedule schedule;
  const auto stopped = schedule.add(latency(500));
  const auto other = schedule.add(share(500));
  std::vector<GpuSchedule::Seen> seen(2);
  seen[stopped] = {.present = true, .wants = true, .running = true, .starved = true};
  seen[other] = {.present = true, .wants = true, .waiting = true};
  for (std::uint64_t now = kMs; now < 10 * kMs; now += kMs / 10) schedule.step(now, seen);
  EXPECT_TRUE(schedule.gate(other).open);
}

TEST(GpuSchedule, ATenantThatNeverUsesItsLeaseCostsTheOthersLittle) {
  GpuModel gpu;
  gpu.add({.kernel_ns = 50'000, .cpu_ns = 4'000, .hangs = true}, share(500));
  gpu.add(kSmallKernels, share(500));
  gpu.run(5 * kSecond);
  gpu.mark();
  gpu.run(10 * kSecond);
  EXPECT_GE(gpu.share(1), 950);
}

// What a tenant in trouble may cost the next one each time, whatever it is owed: its request,
// another if it had just begun to hang, and 10 ms, the wait for its drain included.
TEST(GpuSchedule, ATenantInTroubleDelaysTheNextByTwoRequestsAndTenMilliseconds) {
  constexpr std::uint64_t kNeverEnds = 3'600 * kSecond;
  const std::pair<const char*, Program> troubles[] = {
      {"its batch never completes", {.kernel_ns = kNeverEnds, .cpu_ns = 4'000}},
      {"so, and nothing is behind it",
       {.kernel_ns = kNeverEnds, .cpu_ns = 4'000, .kernels_per_sync = 1}},
      {"stands at its open gate", {.kernel_ns = 50'000, .cpu_ns = 4'000, .hangs = true}},
  };
  for (const auto& [trouble, program] : troubles) {
    for (const std::uint32_t part : {100u, 300u, 500u, 700u, 900u}) {
      GpuModel gpu;
      // Until it gets into trouble, it leaves gaps that the other fills.
      const auto troubled = gpu.add(kLaunchBound, share(part));
      const auto next = gpu.add(kSmallKernels, share(1000 - part));
      gpu.run(2 * kSecond);
      gpu.tenants[troubled].program = program;
      gpu.tenants[next].longest_wait_ns = 0;
      gpu.run(3 * kSecond);
      EXPECT_LE(gpu.tenants[next].longest_wait_ns, 2 * GpuSchedule::Tuning{}.request_ns + 10 * kMs)
          << trouble << ", share " << part;
    }
  }
}

// Its process is stopped, or its kernel hangs: the other loses a second, and after it nothing.
TEST(GpuSchedule, ATenantWhoseBatchDoesNotEndHasNoMoreTurnsUntilItDoes) {
  GpuModel gpu;
  const auto troubled = gpu.add(kGraphs, share(500));
  const auto other = gpu.add(kGraphs, share(500));
  gpu.run(2 * kSecond);
  gpu.tenants[troubled].passed = true;
  gpu.tenants[troubled].program.hangs = true;
  gpu.run(2 * kSecond);
  gpu.mark();
  gpu.run(kSecond);
  EXPECT_GE(gpu.share(other), 999);
  EXPECT_TRUE(gpu.schedule.gate(gpu.tenants[other].seat).open);

  gpu.tenants[troubled].program.hangs = false;
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(kSecond);
  EXPECT_NEAR(gpu.share(troubled), 500, 2 * kPoint);
}

TEST(GpuSchedule, AnEndlessKernelAndAStalledTenantDoNotBlockOthers) {
  GpuSchedule schedule;
  const auto runs = schedule.add(share(300));
  const auto stands = schedule.add(share(300));
  const auto next = schedule.add(share(400));
  std::vector<GpuSchedule::Seen> seen(3);
  std::uint64_t waited = 0;
  std::uint64_t longest = 0;
  constexpr std::uint64_t kStep = 20'000;
  for (std::uint64_t now = kMs; now < 5 * kSecond; now += kStep) {
    const bool open = schedule.gate(next).open;
    waited = open ? 0 : waited + kStep;
    if (now > kSecond) longest = std::max(longest, waited);
    seen[runs] = {.present = true, .wants = true, .running = true, .processes = 1};
    seen[stands] = {.present = true, .wants = true, .waiting = true, .held = true};
    seen[next] = {.present = true,
                  .wants = true,
                  .running = open,
                  .waiting = true,
                  .held = !open,
                  .processes = open ? 1u : 0u,
                  .finished = static_cast<std::uint32_t>(now / kStep)};
    schedule.step(now, seen);
  }
  EXPECT_LE(longest, 100 * kMs);
}

TEST(GpuSchedule, StreamsThatWaitForEachOtherDoNotWaitForEver) {
  GpuSchedule schedule;
  const auto seat = schedule.add(cap(100));
  // One stream is past the gate and waits for an event of the other, which stands at it.
  std::vector<GpuSchedule::Seen> seen(1);
  seen[seat] = {.present = true, .wants = true, .running = true, .waiting = true, .held = true};
  std::uint64_t open_steps = 0;
  for (std::uint64_t now = kMs; now < 200 * kMs; now += kMs / 50) {
    schedule.step(now, seen);
    if (now > 100 * kMs && schedule.gate(seat).open) ++open_steps;
  }
  EXPECT_GE(open_steps, 1U) << "let through again and again";
  EXPECT_LE(open_steps, 1000U) << "and only for moments";
}

TEST(GpuSchedule, NobodyStarvesBesideManyOthers) {
  GpuModel gpu;
  gpu.add(kSmallKernels, share(10));
  for (int i = 0; i < 9; ++i) gpu.add(kSmallKernels, share(110));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(20 * kSecond);
  EXPECT_GE(gpu.share(0), 8);
}

TEST(GpuSchedule, ANewShareTakesEffectWhileEverybodyRuns) {
  GpuModel gpu;
  gpu.add(kSmallKernels, share(300));
  gpu.add(kSmallKernels, share(700));
  gpu.run(2 * kSecond);
  gpu.schedule.change(0, share(700));
  gpu.schedule.change(1, share(300));
  gpu.run(kSecond);
  gpu.mark();
  gpu.run(10 * kSecond);
  EXPECT_NEAR(gpu.share(0), 700, 2 * kPoint);
}

TEST(GpuSchedule, IdleTimeEarnsNoCredit) {
  GpuModel gpu;
  gpu.add({.kernel_ns = 50'000, .cpu_ns = 4'000, .kernels_per_sync = 1000, .pause_ns = 3 * kSecond},
          share(500));
  gpu.add(kSmallKernels, share(500));
  gpu.run(10 * kSecond);
  // 50 ms of work, at half speed when the other wants the GPU too.
  EXPECT_LE(gpu.tenants[1].longest_wait_ns, 80 * kMs);
}

TEST(GpuSchedule, OverMpsTheLatencyClassClosesTheOthersGates) {
  GpuSchedule schedule;
  const auto a = schedule.add({.share = 300, .mps = true});
  const auto b = schedule.add({.share = 700, .mps = true});
  std::vector<GpuSchedule::Seen> seen(
      2, {.present = true, .wants = true, .running = true, .waiting = true});
  schedule.step(kMs, seen);
  EXPECT_FALSE(schedule.gate(a).gated);
  EXPECT_FALSE(schedule.gate(b).gated);
  schedule.change(a, {.share = 300, .tenant_class = TenantClass::kLatency, .mps = true});
  schedule.step(2 * kMs, seen);
  schedule.step(3 * kMs, seen);
  EXPECT_TRUE(schedule.gate(a).open);
  EXPECT_TRUE(schedule.gate(b).gated);
  EXPECT_FALSE(schedule.gate(b).open);
}

TEST(GpuSchedule, OverMpsALatencyTenantBeyondItsBurstIsGatedWhileOthersWantTheGpu) {
  GpuSchedule schedule;
  const auto service =
      schedule.add({.share = 400, .tenant_class = TenantClass::kLatency, .mps = true});
  const auto training = schedule.add({.share = 600, .mps = true});
  std::uint64_t now = kMs;
  std::uint64_t open_ns = 0;
  std::uint64_t training_open_ns = 0;
  constexpr std::uint64_t kStep = kMs / 10;
  for (; now < 10'000 * kMs; now += kStep) {
    const auto busy = [&](GpuSchedule::Seat seat) {
      const bool open = schedule.gate(seat).open;
      return GpuSchedule::Seen{.present = true,
                               .wants = true,
                               .running = open,
                               .waiting = true,
                               .held = !open,
                               .processes = open ? 1u : 0u,
                               .finished = static_cast<std::uint32_t>(now / kStep)};
    };
    const std::vector<GpuSchedule::Seen> seen = {busy(service), busy(training)};
    open_ns += schedule.gate(service).open ? kStep : 0;
    training_open_ns += schedule.gate(training).open ? kStep : 0;
    schedule.step(now, seen);
  }
  EXPECT_NEAR(static_cast<double>(open_ns) / static_cast<double>(now), 0.4, 0.02);
  EXPECT_NEAR(static_cast<double>(training_open_ns) / static_cast<double>(now), 0.6, 0.02);
}

// One process has its share of the threads, and that is its cap; three of them have three times it.
TEST(GpuSchedule, OverMpsACapHoldsForSeveralProcessesTogether) {
  for (const std::uint32_t processes : {1u, 3u}) {
    GpuSchedule schedule;
    const auto seat = schedule.add({.share = 200, .capped = true, .mps = true});
    std::uint64_t now = kMs;
    std::uint64_t open_ns = 0;
    constexpr std::uint64_t kStep = kMs / 10;
    for (; now < 5'000 * kMs; now += kStep) {
      const bool open = schedule.gate(seat).open;
      open_ns += open ? kStep : 0;
      schedule.step(now, {{.present = true,
                           .wants = true,
                           .running = open,
                           .waiting = true,
                           .held = !open,
                           .processes = open ? processes : 0}});
    }
    EXPECT_NEAR(static_cast<double>(open_ns) / static_cast<double>(now),
                1.0 / static_cast<double>(processes), 0.01)
        << processes << " processes";
  }
}

}  // namespace
}  // namespace divvy::share
