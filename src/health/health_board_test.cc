#include "health/health_board.h"

#include <gtest/gtest.h>

#include "health/health_testing.h"

namespace divvy::health {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HealthBoardTest : public ::testing::Test {
 protected:
  void SetUp() override { (void)board.take_changed(); }

  static model::GpuUuid gpu(std::uint32_t index) { return model::test_uuid(index); }
  void sample(std::uint32_t index) {
    board.heard(SampleMessage{healthy_sample(index), milliseconds(1000)});
  }
  void fail(std::uint32_t index, FailedMessage::Kind kind) {
    board.heard(FailedMessage{gpu(index), milliseconds(1000), kind, "GPU is lost"});
  }
  HealthBoard::Todo advance(Duration by) {
    clock.advance(by);
    return board.tick();
  }
  HealthState state(std::uint32_t index) { return board.all()[index].state; }
  // Everything that happened so far.
  const std::vector<Event>& all_news() {
    for (Event& event : board.take_news()) news.push_back(std::move(event));
    return news;
  }
  std::vector<std::string> event_words(EventKind kind) {
    std::vector<std::string> result;
    for (const Event& event : all_news()) {
      if (event.kind == kind) result.push_back(event.reason);
    }
    return result;
  }

  ManualClock clock;
  std::vector<Event> news;
  HealthSettings settings;
  HealthBoard board{
      settings, {{model::GpuIndex(0), gpu(0), {}}, {model::GpuIndex(1), gpu(1), {}}}, clock};
};

TEST_F(HealthBoardTest, OnlyTheSilentGpuBecomesSuspect) {
  sample(0);
  sample(1);
  const Duration patience = seconds(1) + settings.answer_time;
  EXPECT_EQ(board.tick().next, clock.now() + patience);
  for (int i = 0; i < 11; ++i) {
    (void)advance(seconds(1));
    sample(1);
  }
  EXPECT_EQ(state(0), HealthState::kSuspect);
  EXPECT_EQ(state(1), HealthState::kHealthy);
  EXPECT_EQ(board.take_changed().size(), 1U);
  HealthBoard::Todo todo;
  for (int i = 0; i < 10; ++i) {
    todo = advance(seconds(1));
    EXPECT_FALSE(todo.new_sampler);  // The other one is heard
    sample(1);
  }
  EXPECT_EQ(state(0), HealthState::kQuarantined);
  EXPECT_EQ(board.all()[0].reason, "does not answer");
  EXPECT_EQ(state(1), HealthState::kHealthy);
}

TEST_F(HealthBoardTest, AsksAnewAboutASilentGpuWhenItsQuarantineIsOver) {
  HealthBoard::Todo todo;
  for (int i = 0; i < 200 && !todo.new_sampler; ++i) {
    todo = advance(seconds(1));
    sample(1);
  }
  EXPECT_TRUE(todo.new_sampler);
  EXPECT_EQ(state(0), HealthState::kQuarantined);
  EXPECT_TRUE(todo.probes.empty());
  board.sampler_started();
  EXPECT_FALSE(board.tick().new_sampler);
  sample(0);
  todo = board.tick();
  ASSERT_EQ(todo.probes.size(), 1U);
  EXPECT_EQ(todo.probes[0], gpu(0));
}

TEST_F(HealthBoardTest, ASamplerThatSaysNothingAtAllIsReplaced) {
  sample(0);
  sample(1);
  HealthBoard::Todo todo = advance(settings.answer_time + seconds(1));
  EXPECT_TRUE(todo.new_sampler);
  EXPECT_EQ(state(0), HealthState::kSuspect);
  board.sampler_started();
  EXPECT_FALSE(board.tick().new_sampler);
  sample(0);
  sample(1);
  EXPECT_EQ(state(0), HealthState::kSuspect);
  (void)advance(seconds(10));
  sample(0);
  sample(1);
  for (int i = 0; i < 60; ++i) {
    (void)advance(seconds(1));
    sample(0);
    sample(1);
  }
  EXPECT_EQ(state(0), HealthState::kHealthy);
}

TEST_F(HealthBoardTest, ProbesOneAtATimeAndWritesDownWhatFailed) {
  board.heard(XidMessage{gpu(0), 79});
  sample(1);
  HealthBoard::Todo todo;
  for (int i = 0; i < 60; ++i) {
    todo = advance(seconds(1));
    sample(0);
    sample(1);
  }
  ASSERT_EQ(todo.probes.size(), 1U);
  board.probe_started(gpu(0));
  EXPECT_TRUE(board.tick().probes.empty());
  EXPECT_GT(board.tick().next, clock.now());
  board.probe_ended(gpu(0), {ProbeResult::Outcome::kFailed, "cuInit answered something"});
  EXPECT_EQ(event_words(EventKind::kProbe),
            std::vector<std::string>{"the probe failed: cuInit answered something"});
  EXPECT_TRUE(board.tick().probes.empty());
  EXPECT_EQ(state(0), HealthState::kQuarantined);
}

TEST_F(HealthBoardTest, EveryChangeIsAnEventWithItsReason) {
  board.heard(XidMessage{gpu(1), 79});
  const auto all = all_news();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, EventKind::kXid);
  EXPECT_EQ(all[1].kind, EventKind::kHealth);
  EXPECT_EQ(all[1].state, "quarantined");
  EXPECT_EQ(all[1].reason, "XID 79: the GPU has fallen off the bus");
  EXPECT_EQ(all[1].gpu, model::GpuIndex(1));
}

TEST_F(HealthBoardTest, MistakesOfApplicationsAreToldOnceAMinute) {
  for (int i = 0; i < 100; ++i) board.heard(XidMessage{gpu(0), 13});
  EXPECT_EQ(event_words(EventKind::kXid).size(), 1U);
  clock.advance(std::chrono::minutes(1));
  board.heard(XidMessage{gpu(0), 13});
  EXPECT_EQ(event_words(EventKind::kXid).size(), 2U);
  EXPECT_EQ(state(0), HealthState::kHealthy);
}

TEST_F(HealthBoardTest, FailuresAreTroublesOfTheirKind) {
  fail(0, FailedMessage::Kind::kLost);
  fail(1, FailedMessage::Kind::kError);
  EXPECT_EQ(state(0), HealthState::kQuarantined);
  EXPECT_EQ(state(1), HealthState::kSuspect);
}

TEST_F(HealthBoardTest, KeepsCordonsApartFromHealth) {
  EXPECT_TRUE(board.set_cordon(gpu(0), model::Cordon{"new fan", true, 0}));
  EXPECT_FALSE(board.set_cordon(model::test_uuid(9), std::nullopt));
  const GpuHealth health = board.all()[0];
  EXPECT_TRUE(health.cordoned && health.draining);
  EXPECT_EQ(health.cordon_reason, "new fan");
  EXPECT_EQ(health.state, HealthState::kHealthy);
  EXPECT_EQ(board.take_changed().size(), 1U);
  EXPECT_TRUE(board.set_cordon(gpu(0), std::nullopt));
  EXPECT_FALSE(board.all()[0].cordoned);
  EXPECT_EQ(event_words(EventKind::kDrain).size(), 1U);
  EXPECT_EQ(event_words(EventKind::kUncordon).size(), 1U);
}

TEST_F(HealthBoardTest, WhatTheInventoryCallsOutOfOrderBeginsInQuarantine) {
  HealthBoard other(settings, {{model::GpuIndex(0), gpu(0), "GPU requires reset"}}, clock);
  EXPECT_EQ(other.all()[0].state, HealthState::kQuarantined);
  EXPECT_EQ(other.all()[0].reason, "GPU requires reset");
}

TEST_F(HealthBoardTest, NeverAsksToBeCalledInThePast) {
  board.heard(XidMessage{gpu(0), 79});
  for (int i = 0; i < 1000; ++i) {
    HealthBoard::Todo todo = board.tick();
    if (todo.new_sampler) board.sampler_started();
    for (const auto& one : todo.probes) {
      board.probe_started(one);
      board.probe_ended(one, {ProbeResult::Outcome::kFailed, "no"});
    }
    if (!todo.probes.empty()) todo = board.tick();
    ASSERT_GT(todo.next, clock.now()) << i;
    clock.advance(std::min<Duration>(todo.next - clock.now(), seconds(30)));
    if (i % 2 == 0) sample(1);
    if (i % 5 == 0) sample(0);
  }
}

}  // namespace
}  // namespace divvy::health
