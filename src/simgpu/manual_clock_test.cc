#include "simgpu/manual_clock.h"

#include <thread>

#include "simgpu/state_fixture.h"

namespace divvy::simgpu {
namespace {

constexpr const char* kManual = "clock: manual\ngpus: [{model: H200}]\n";
constexpr uint64_t kMs = 1'000'000;

using ManualClockTest = StateFixture;

TEST_F(ManualClockTest, MovesByTheStepAndNotByItself) {
  start_yaml(kManual);
  const uint64_t before = now_ns(state().shared());
  EXPECT_EQ(now_ns(state().shared()), before);
  std::string error;
  EXPECT_TRUE(advance_manual_clock(state(), 5 * kMs, &error)) << error;
  EXPECT_EQ(now_ns(state().shared()), before + 5 * kMs);
}

TEST_F(ManualClockTest, RefusesToMoveRealTime) {
  start("1");
  std::string error;
  EXPECT_FALSE(advance_manual_clock(state(), kMs, &error));
  EXPECT_NE(error.find("clock: manual"), std::string::npos);
}

TEST_F(ManualClockTest, DoesNotWaitForAProcessThatNeverUsedAGpu) {
  start_yaml(kManual);
  hold(0, 1);
  std::string error;
  EXPECT_TRUE(advance_manual_clock(state(), kMs, &error)) << error;
}

TEST_F(ManualClockTest, WaitsUntilAProcessHasSettled) {
  start_yaml(kManual);
  ProcessSlot& slot = state().shared().slot[hold(0, 1)];
  slot.settled_at_ns.store(now_ns(state().shared()));
  const uint64_t target = now_ns(state().shared()) + kMs;
  // Stands for the engine of that process.
  std::thread engine([&] {
    uint32_t seen = slot.seen_wake.load();
    while (slot.wake.load() == seen) futex_wait(slot.wake, seen, nullptr);
    slot.settled_at_ns.store(now_ns(state().shared()));
    slot.seen_wake.store(slot.wake.load());
    futex_wake_all(slot.seen_wake);
  });
  std::string error;
  EXPECT_TRUE(advance_manual_clock(state(), kMs, &error)) << error;
  EXPECT_GE(slot.settled_at_ns.load(), target);
  engine.join();
}

TEST_F(ManualClockTest, NamesAProcessThatDoesNotFollow) {
  start_yaml(kManual);
  ProcessSlot& slot = state().shared().slot[hold(0, 1)];
  slot.settled_at_ns.store(now_ns(state().shared()));
  std::string error;
  EXPECT_FALSE(advance_manual_clock(state(), kMs, &error, 1));
  EXPECT_NE(error.find("process " + std::to_string(getpid())), std::string::npos) << error;
}

}  // namespace
}  // namespace divvy::simgpu
