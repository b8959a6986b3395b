#include "health/health.h"

#include <gtest/gtest.h>

#include "health/health_testing.h"
#include "health/xid_policy.h"

namespace divvy::health {
namespace {

using std::chrono::seconds;
using enum HealthState;

// One GPU and a time that the test moves.
class HealthTest : public ::testing::Test {
 protected:
  HealthState state() const { return health.state(); }
  void pass(Duration time) {
    now += time;
    changes = health.tick(now);
  }
  void sample(const GpuSample& one) { changes = health.sample(one, now); }
  void sample() { sample(healthy_sample()); }
  void xid(std::uint64_t number) { changes = health.xid(number, now); }
  void probe(ProbeResult::Outcome outcome) { changes = health.probed({outcome, "cuInit"}, now); }
  void passed() { probe(ProbeResult::Outcome::kPassed); }

  // From quarantine until it is healthy; how long it took.
  Duration recover() {
    const TimePoint began = now;
    while (state() != kHealthy) {
      now = std::max(now, health.next_tick());
      EXPECT_TRUE(health.wants_probe(now));
      passed();
    }
    return now - began;
  }

  HealthPolicy policy;
  TimePoint now{};
  Health health{policy, now};
  HealthChanges changes;
};

TEST_F(HealthTest, StaysHealthyWhileNothingIsWrong) {
  for (int i = 0; i < 100; ++i) {
    sample();
    pass(seconds(1));
    EXPECT_TRUE(changes.empty());
  }
  EXPECT_EQ(state(), kHealthy);
  EXPECT_EQ(health.next_tick(), TimePoint::max());
}

TEST_F(HealthTest, MistakesOfApplicationsChangeNothing) {
  for (const std::uint64_t number : {8U, 13U, 31U, 43U, 45U, 68U, 69U, 109U}) {
    for (int i = 0; i < 10; ++i) xid(number);
    EXPECT_EQ(state(), kHealthy) << number;
  }
}

TEST_F(HealthTest, ACondemningXidQuarantinesAtOnceAndProbesBringItBack) {
  for (const std::uint64_t number : {48U, 62U, 64U, 74U, 79U, 95U, 119U, 120U, 140U}) {
    Health gpu(policy, now);
    EXPECT_EQ(gpu.xid(number, now).size(), 1U) << number;
    EXPECT_EQ(gpu.state(), kQuarantined) << number;
  }
  xid(79);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].from, kHealthy);
  EXPECT_EQ(changes[0].to, kQuarantined);
  EXPECT_EQ(health.reason(), "XID 79: the GPU has fallen off the bus");
  EXPECT_FALSE(health.wants_probe(now));
  pass(policy.quarantine_time);
  EXPECT_TRUE(health.wants_probe(now));
  passed();
  EXPECT_EQ(state(), kProbation);
  EXPECT_FALSE(health.wants_probe(now));
  pass(policy.probation_interval);
  passed();
  EXPECT_EQ(state(), kProbation);
  pass(policy.probation_interval);
  passed();
  EXPECT_EQ(state(), kHealthy);
  EXPECT_EQ(health.reason(), "");
}

TEST_F(HealthTest, AnUnclearXidMakesItSuspectUntilItHasBeenQuiet) {
  xid(94);
  EXPECT_EQ(state(), kSuspect);
  pass(policy.suspect_time - seconds(1));
  EXPECT_EQ(state(), kSuspect);
  pass(seconds(1));
  EXPECT_EQ(state(), kHealthy);
  xid(4242);  // Nobody knows it
  EXPECT_EQ(state(), kSuspect);
}

TEST_F(HealthTest, TroubleAgainAndAgainQuarantines) {
  xid(94);
  pass(policy.suspect_time);
  EXPECT_EQ(state(), kHealthy);
  xid(94);
  pass(policy.suspect_time);
  xid(94);
  EXPECT_EQ(state(), kQuarantined);
  EXPECT_NE(health.reason().find("again and again"), std::string::npos);
}

TEST_F(HealthTest, WhatOneIncidentShowsInSeveralWaysCountsOnce) {
  sample();
  for (int i = 1; i <= 5; ++i) {
    xid(94);
    GpuSample errors = healthy_sample();
    errors.uncorrected_errors = i;
    sample(errors);
  }
  EXPECT_EQ(state(), kSuspect);
}

TEST_F(HealthTest, NewUncorrectedErrorsMakeItSuspectAndOldOnesDoNot) {
  GpuSample errors = healthy_sample();
  errors.uncorrected_errors = 7;
  sample(errors);
  EXPECT_EQ(state(), kHealthy);
  errors.uncorrected_errors = 8;
  sample(errors);
  EXPECT_EQ(state(), kSuspect);
  EXPECT_EQ(health.reason(), "1 new uncorrected memory error");
  // The driver was loaded anew and counts from the start.
  pass(policy.suspect_time);
  errors.uncorrected_errors = 0;
  sample(errors);
  EXPECT_EQ(state(), kHealthy);
}

TEST_F(HealthTest, AMemoryRowThatWaitsForAResetKeepsItSuspect) {
  GpuSample pending = healthy_sample();
  pending.remap_pending = true;
  sample(pending);
  EXPECT_EQ(state(), kSuspect);
  for (int i = 0; i < 10; ++i) {
    pass(policy.suspect_time);
    sample(pending);
  }
  EXPECT_EQ(state(), kSuspect);
  sample();
  pass(policy.suspect_time);
  EXPECT_EQ(state(), kHealthy);
}

TEST_F(HealthTest, AMemoryRowThatCannotBeReplacedQuarantinesForAsLongAsItIsSo) {
  GpuSample failed = healthy_sample();
  failed.remap_failed = true;
  sample(failed);
  EXPECT_EQ(state(), kQuarantined);
  pass(policy.quarantine_time * 10);
  EXPECT_FALSE(health.wants_probe(now));
  sample();
  EXPECT_TRUE(health.wants_probe(now));
}

TEST_F(HealthTest, IsTooHotAfterAWhileAndUntilItIsCoolerByTheMargin) {
  GpuSample hot = healthy_sample();
  hot.temperature_c = 90;
  sample(hot);
  EXPECT_EQ(state(), kHealthy);
  pass(policy.hot_time);
  sample(hot);
  EXPECT_EQ(state(), kSuspect);
  hot.temperature_c = 86;  // Below the limit, but not by enough
  sample(hot);
  pass(policy.suspect_time * 2);
  EXPECT_EQ(state(), kSuspect);
  hot.temperature_c = 85;
  sample(hot);
  pass(policy.suspect_time);
  EXPECT_EQ(state(), kHealthy);
}

TEST_F(HealthTest, AShortPeakOfTemperatureIsNothing) {
  GpuSample hot = healthy_sample();
  hot.temperature_c = 95;
  sample(hot);
  pass(policy.hot_time / 2);
  sample();
  pass(policy.hot_time);
  sample(hot);
  EXPECT_EQ(state(), kHealthy);
}

TEST_F(HealthTest, ALostGpuIsAskedAnewAndProbedOnceItIsBack) {
  changes = health.trouble(Trouble::kLost, "GPU is lost", now);
  EXPECT_EQ(state(), kQuarantined);
  pass(policy.quarantine_time);
  EXPECT_FALSE(health.wants_probe(now));
  EXPECT_TRUE(health.wants_new_questions(now));
  health.asked_anew(now);
  EXPECT_FALSE(health.wants_new_questions(now));
  sample();
  EXPECT_TRUE(health.wants_probe(now));
}

TEST_F(HealthTest, SilenceMakesItSuspectAndThenQuarantined) {
  changes = health.trouble(Trouble::kSilent, "does not answer", now);
  EXPECT_EQ(state(), kSuspect);
  pass(policy.suspect_time * 2);
  EXPECT_EQ(state(), kSuspect);  // It has not been quiet; it has been silent
  changes = health.given_up(now);
  EXPECT_EQ(state(), kQuarantined);
  EXPECT_EQ(health.reason(), "does not answer");
  sample();
  EXPECT_EQ(state(), kQuarantined);
  recover();
}

TEST_F(HealthTest, QuestionsThatFailForLongQuarantine) {
  changes = health.trouble(Trouble::kFailing, "Unknown Error", now);
  EXPECT_EQ(state(), kSuspect);
  EXPECT_EQ(health.next_tick(), now + policy.failing_time);
  pass(policy.failing_time);
  EXPECT_EQ(state(), kQuarantined);
}

TEST_F(HealthTest, AProbeThatFailsOrHangsMakesTheQuarantineLonger) {
  xid(79);
  pass(policy.quarantine_time);
  probe(ProbeResult::Outcome::kFailed);
  EXPECT_EQ(state(), kQuarantined);
  EXPECT_TRUE(changes.empty());
  EXPECT_EQ(health.reason(), "the probe failed: cuInit");
  pass(policy.quarantine_time);
  EXPECT_FALSE(health.wants_probe(now));
  pass(policy.quarantine_time);
  EXPECT_TRUE(health.wants_probe(now));
  probe(ProbeResult::Outcome::kHung);
  EXPECT_EQ(health.reason(), "the probe did not come back");
}

TEST_F(HealthTest, TroubleInProbationGoesBackToQuarantine) {
  for (const int kind : {0, 1, 2}) {
    xid(79);
    now = std::max(now, health.next_tick());
    passed();
    ASSERT_EQ(state(), kProbation);
    if (kind == 0) xid(94);
    if (kind == 1) probe(ProbeResult::Outcome::kHung);
    if (kind == 2) changes = health.trouble(Trouble::kSilent, "does not answer", now);
    EXPECT_EQ(state(), kQuarantined) << kind;
    sample();
    recover();
  }
}

TEST_F(HealthTest, AnAnswerThatNobodyWaitsForIsIgnored) {
  probe(ProbeResult::Outcome::kFailed);
  EXPECT_EQ(state(), kHealthy);
}

TEST_F(HealthTest, EachReturnTakesLongerUpToACeilingAndIsForgottenAfterAQuietTime) {
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    xid(79);
    const Duration took = recover();
    EXPECT_GE(took, last);
    EXPECT_LE(took, policy.longest_quarantine + 3 * policy.probation_interval);
    last = took;
    pass(seconds(1));
  }
  EXPECT_EQ(health.next_quarantine(), policy.longest_quarantine);
  pass(policy.forget_time);
  EXPECT_EQ(health.next_quarantine(), policy.quarantine_time);
}

TEST_F(HealthTest, ErrorsInQuarantineBeginTheQuietTimeAnew) {
  xid(79);
  pass(policy.quarantine_time - seconds(1));
  xid(119);
  EXPECT_EQ(health.reason(), "XID 119: the GPU's own processor does not answer");
  pass(seconds(1));
  EXPECT_FALSE(health.wants_probe(now));
  pass(policy.quarantine_time);
  EXPECT_TRUE(health.wants_probe(now));
}

TEST(XidPolicy, TheTableIsInOrderAndJudgesWhatTheIssueNames) {
  std::uint64_t last = 0;
  for (const XidRule& rule : xid_rules()) {
    EXPECT_GT(rule.first, last);
    EXPECT_GE(rule.last, rule.first);
    last = rule.last;
  }
  EXPECT_EQ(judge_xid(13).verdict, XidVerdict::kApplication);
  EXPECT_EQ(judge_xid(63).verdict, XidVerdict::kNote);
  EXPECT_EQ(judge_xid(79).verdict, XidVerdict::kCondemned);
  EXPECT_EQ(judge_xid(100).verdict, XidVerdict::kApplication);
  EXPECT_EQ(judge_xid(100'000).verdict, XidVerdict::kSuspect);
}

}  // namespace
}  // namespace divvy::health
