// Whatever happens to a GPU: what must always hold.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "health/failing_tenants.h"
#include "health/health.h"
#include "health/health_testing.h"

namespace divvy::health {
namespace {

using std::chrono::seconds;

// One thing that happens: a kind and a number that it may use.
struct Happening {
  int kind = 0;
  std::uint32_t number = 0;
};

std::vector<Happening> any_life() {
  const auto happening = rc::gen::build<Happening>(
      rc::gen::set(&Happening::kind, rc::gen::inRange(0, 8)),
      rc::gen::set(&Happening::number, rc::gen::inRange<std::uint32_t>(0, 200)));
  return *rc::gen::container<std::vector<Happening>>(happening);
}

void happen(Health& health, const Happening& what, TimePoint now) {
  GpuSample sample = healthy_sample();
  switch (what.kind) {
    case 0:
      health.xid(what.number, now);
      return;
    case 1:
      sample.temperature_c = what.number;
      sample.uncorrected_errors = what.number / 50;
      health.sample(sample, now);
      return;
    case 2:
      sample.remap_pending = what.number % 2 == 0;
      sample.remap_failed = what.number % 7 == 0;
      health.sample(sample, now);
      return;
    case 3:
      health.trouble(static_cast<Trouble>(what.number % 2 == 0 ? 0 : 3), "trouble", now);
      return;
    case 4:
      health.given_up(now);
      return;
    case 5:
      health.probed({static_cast<ProbeResult::Outcome>(what.number % 3), "why"}, now);
      return;
    case 6:
      health.trouble(Trouble::kFailing, "fails", now);
      return;
    default:
      health.tick(now);
      return;
  }
}

// Lets time pass with good samples and good probes until nothing more is to come.
void live_quietly(Health& health, TimePoint& now) {
  // A count of errors that is lower than before is no new error.
  for (int i = 0; i < 100 && health.state() != HealthState::kHealthy; ++i) {
    health.sample(healthy_sample(), now);
    now = std::max(now + seconds(1), std::min(health.next_tick(), now + std::chrono::hours(2)));
    health.tick(now);
    if (health.wants_probe(now)) health.probed({}, now);
  }
}

RC_GTEST_PROP(HealthProperty, AGpuThatIsQuietEndsHealthy, ()) {
  TimePoint now{};
  Health health(HealthPolicy{}, now);
  for (const Happening& what : any_life()) {
    now += seconds(what.number);
    happen(health, what, now);
  }
  live_quietly(health, now);
  RC_ASSERT(health.state() == HealthState::kHealthy);
}

RC_GTEST_PROP(HealthProperty, TheNextQuarantineIsNeverShorterUntilItIsForgotten, ()) {
  TimePoint now{};
  Health health(HealthPolicy{}, now);
  Duration last = health.next_quarantine();
  for (const Happening& what : any_life()) {
    now += seconds(what.number);
    happen(health, what, now);
    RC_ASSERT(health.next_quarantine() >= last);
    RC_ASSERT(health.next_quarantine() <= HealthPolicy{}.longest_quarantine);
    last = health.next_quarantine();
  }
}

RC_GTEST_PROP(HealthProperty, EveryChangeIsAnArrowOfTheDiagramAndSaysWhy, ()) {
  using enum HealthState;
  TimePoint now{};
  Health health(HealthPolicy{}, now);
  for (const Happening& what : any_life()) {
    now += seconds(what.number);
    const HealthState before = health.state();
    happen(health, what, now);
    const HealthState after = health.state();
    const bool back_to_healthy = after == kHealthy;
    RC_ASSERT(back_to_healthy == health.reason().empty());
    if (before == kQuarantined) RC_ASSERT(after == kQuarantined || after == kProbation);
    if (before == kHealthy) RC_ASSERT(after != kProbation);
    if (before == kSuspect) RC_ASSERT(after != kProbation);
    if (before == kProbation) RC_ASSERT(after != kSuspect);
  }
}

RC_GTEST_PROP(HealthProperty, AGpuGetsNewWorkExactlyWhileItIsHealthy, ()) {
  TimePoint now{};
  Health health(HealthPolicy{}, now);
  for (const Happening& what : any_life()) {
    now += seconds(what.number);
    happen(health, what, now);
    const std::string resting = resting_text({.uuid = model::test_uuid(0),
                                              .state = health.state(),
                                              .reason = health.reason(),
                                              .since = {},
                                              .cordon_reason = {}});
    RC_ASSERT(resting.empty() == (health.state() == HealthState::kHealthy));
  }
}

}  // namespace
}  // namespace divvy::health
