#include "health/failing_tenants.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "model/testing.h"

namespace divvy::health {
namespace {

using std::chrono::seconds;

class FailingTenantsTest : public ::testing::Test {
 protected:
  FailingTenants make(OnFailure on_failure) {
    return FailingTenants({.on_failure = on_failure,
                           .grace_time = seconds(10),
                           .clock = clock,
                           .events = events,
                           .holders = [this](const auto&) { return present; },
                           .signal = [this](auto id, int number) { sent.emplace_back(id, number); },
                           .rest = [this](const auto&, const auto& why, bool) { resting = why; }});
  }
  GpuHealth health(HealthState state, std::string reason) const {
    return {.uuid = model::test_uuid(0),
            .state = state,
            .reason = std::move(reason),
            .since = {},
            .cordon_reason = {}};
  }
  GpuHealth drained() const {
    GpuHealth result = health(HealthState::kHealthy, "");
    result.cordoned = result.draining = true;
    result.cordon_reason = "new fan";
    return result;
  }

  using Sent = std::vector<std::pair<model::TenantId, int>>;
  ManualClock clock;
  EventLog events{clock};
  std::vector<HolderName> present = {{model::TenantId(4), "train"}};
  Sent sent;
  std::string resting;
};

TEST_F(FailingTenantsTest, TellsThoseOnAGpuThatFailsAndKeepsThem) {
  FailingTenants tenants = make(OnFailure::kKeep);
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kQuarantined, "XID 79"));
  EXPECT_EQ(resting, "is quarantined: XID 79");
  EXPECT_EQ(tenants.tick(), TimePoint::max());
  ASSERT_EQ(events.since(0).size(), 1U);
  EXPECT_EQ(events.since(0)[0].tenant, "train");
  EXPECT_EQ(events.since(0)[0].reason, "its GPU 0 is quarantined: XID 79");
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kQuarantined, "the probe failed"));
  EXPECT_EQ(tenants.tick(), TimePoint::max());
  EXPECT_EQ(events.since(0).size(), 1U);
  EXPECT_TRUE(sent.empty());
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kHealthy, ""));
  EXPECT_EQ(resting, "");
}

TEST_F(FailingTenantsTest, EndsThemWhereTheOperatorWantsItAndKillsThoseWhoStay) {
  FailingTenants tenants = make(OnFailure::kEnd);
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kSuspect, "hot"));
  EXPECT_TRUE(sent.empty());
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kQuarantined, "XID 79"));
  EXPECT_EQ(tenants.tick(), clock.now() + seconds(10));
  EXPECT_EQ(sent, (Sent{{model::TenantId(4), SIGTERM}}));
  clock.advance(seconds(10));
  (void)tenants.tick();
  EXPECT_EQ(sent.back(), std::pair(model::TenantId(4), SIGKILL));
  present.clear();
  EXPECT_EQ(tenants.tick(), TimePoint::max());
  EXPECT_EQ(sent.size(), 2U);
}

TEST_F(FailingTenantsTest, ADrainAsksThemToGoAndSaysWhenTheLastHasGone) {
  FailingTenants tenants = make(OnFailure::kKeep);
  tenants.gpu_changed(model::GpuIndex(0), drained());
  EXPECT_EQ(resting, "is being drained: new fan");
  EXPECT_EQ(tenants.tick(), TimePoint::max());
  EXPECT_TRUE(sent.empty());
  present.clear();
  (void)tenants.tick();
  (void)tenants.tick();
  const auto all = events.since(0);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].kind, EventKind::kDrained);
}

TEST_F(FailingTenantsTest, ADrainWithADeadlineEndsWhoIsStillThere) {
  FailingTenants tenants = make(OnFailure::kKeep);
  tenants.gpu_changed(model::GpuIndex(0), drained());
  tenants.end_at(model::test_uuid(0), clock.now() + seconds(60));
  EXPECT_EQ(tenants.tick(), clock.now() + seconds(60));
  clock.advance(seconds(60));
  (void)tenants.tick();
  EXPECT_EQ(sent, (Sent{{model::TenantId(4), SIGTERM}}));
}

TEST_F(FailingTenantsTest, UncordoningTakesTheDeadlineBack) {
  FailingTenants tenants = make(OnFailure::kKeep);
  tenants.gpu_changed(model::GpuIndex(0), drained());
  tenants.end_at(model::test_uuid(0), clock.now() + seconds(60));
  tenants.gpu_changed(model::GpuIndex(0), health(HealthState::kHealthy, ""));
  clock.advance(seconds(60));
  EXPECT_EQ(tenants.tick(), TimePoint::max());
  EXPECT_TRUE(sent.empty());
}

}  // namespace
}  // namespace divvy::health
