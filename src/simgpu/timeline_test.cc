#include "simgpu/timeline.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "simgpu/scratch.h"

namespace divvy::simgpu {

// Found by GoogleTest, hence not in the unnamed namespace.
static void PrintTo(const GpuWindow& w, std::ostream* out) {
  *out << static_cast<double>(w.start_ns) / 1e6 << ".." << static_cast<double>(w.end_ns) / 1e6
       << " ms";
}

namespace {

constexpr uint64_t kMs = 1'000'000;

// Two channels on one GPU with slices of 2 ms. Both belong to this process, which lives.
class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() {
    path_ = scratch("timeline");
    setenv("DIVVY_SIM_STATE", path_.c_str(), 1);
    setenv("DIVVY_SIM_GPUS", "1xH200", 1);
    std::string error;
    state_.reset(SharedState::open(&error));
    EXPECT_NE(state_, nullptr) << error;
    slot_ = state_->claim_slot();
    timeline_ = std::make_unique<Timeline>(*state_, 0);
    a_ = timeline_->open_channel(slot_);
    b_ = timeline_->open_channel(slot_);
  }
  ~TimelineTest() override { SharedState::remove(path_); }

  // The channel looks at `now`, having had `work` since `ready`. It uses its windows fully, as a
  // long kernel would. Returns what it was given.
  std::vector<GpuWindow> look(int channel, uint64_t ready, uint64_t work, uint64_t now) {
    std::vector<GpuWindow> windows;
    turn_ = timeline_->take_turn(channel, ready, work, now, [&](const GpuWindow& window) {
      const uint64_t ran = std::min(window.end_ns - window.start_ns, work);
      if (ran > 0) windows.push_back({window.start_ns, window.start_ns + ran});
      work -= ran;
      return Timeline::Standing{window.start_ns + ran, work};
    });
    left_ = work;
    return windows;
  }

  std::string path_;
  std::unique_ptr<SharedState> state_;
  std::unique_ptr<Timeline> timeline_;
  Timeline::Turn turn_;
  uint64_t left_ = 0;
  int slot_ = -1;
  int a_ = -1;
  int b_ = -1;
};

using Windows = std::vector<GpuWindow>;

TEST_F(TimelineTest, AnIdleGpuIsGivenFromWhenTheWorkWasReady) {
  EXPECT_EQ(look(a_, 10 * kMs, 100 * kMs, 11 * kMs), (Windows{{10 * kMs, 11 * kMs}}));
  EXPECT_TRUE(turn_.owning);
}

TEST_F(TimelineTest, TheSecondWaitsForTheFirstsSlice) {
  look(a_, 10 * kMs, 100 * kMs, 10 * kMs);
  EXPECT_EQ(look(b_, 10 * kMs, 5 * kMs, 11 * kMs), Windows{});
  EXPECT_TRUE(turn_.waiting);
  EXPECT_EQ(turn_.turn_at_ns, 12 * kMs);
}

TEST_F(TimelineTest, TwoTakeTurnsSliceBySliceWhoeverLooksFirst) {
  look(a_, 10 * kMs, 100 * kMs, 10 * kMs);
  look(b_, 10 * kMs, 100 * kMs, 10 * kMs);
  EXPECT_EQ(look(b_, 10 * kMs, 100 * kMs, 19 * kMs),
            (Windows{{12 * kMs, 14 * kMs}, {16 * kMs, 18 * kMs}}));
  EXPECT_EQ(look(a_, 10 * kMs, 100 * kMs, 19 * kMs),
            (Windows{{10 * kMs, 12 * kMs}, {14 * kMs, 16 * kMs}, {18 * kMs, 19 * kMs}}));
}

TEST_F(TimelineTest, AloneThereAreNoSlices) {
  EXPECT_EQ(look(a_, 10 * kMs, 100 * kMs, 35 * kMs), (Windows{{10 * kMs, 35 * kMs}}));
}

TEST_F(TimelineTest, AnOwnerWhoseWorkIsOverLosesTheGpuAtItsEnd) {
  look(a_, 10 * kMs, 1 * kMs, 10 * kMs);
  EXPECT_EQ(look(b_, 10 * kMs, 5 * kMs, 13 * kMs), (Windows{{11 * kMs, 13 * kMs}}));
  EXPECT_EQ(look(a_, 10 * kMs, 1 * kMs, 13 * kMs), (Windows{{10 * kMs, 11 * kMs}}));
}

TEST_F(TimelineTest, AWindowNeverBeginsBeforeTheWorkWasReady) {
  look(a_, 10 * kMs, 1 * kMs, 10 * kMs);
  EXPECT_EQ(look(b_, 12 * kMs, 5 * kMs, 13 * kMs), (Windows{{12 * kMs, 13 * kMs}}));
}

TEST_F(TimelineTest, OneThatDoesNotLookKeepsItsTurnsForWorkItHadAnnounced) {
  look(a_, 10 * kMs, 5 * kMs, 10 * kMs);  // then it is stopped
  look(b_, 10 * kMs, 100 * kMs, 10 * kMs);
  EXPECT_EQ(look(b_, 10 * kMs, 100 * kMs, 30 * kMs),
            (Windows{{12 * kMs, 14 * kMs}, {16 * kMs, 18 * kMs}, {19 * kMs, 30 * kMs}}));
}

TEST_F(TimelineTest, OneThatIsAwayForVeryLongWaitsForItsReturn) {
  look(a_, 10 * kMs, 10'000 * kMs, 10 * kMs);
  look(b_, 10 * kMs, 10'000 * kMs, 10 * kMs);
  look(b_, 10 * kMs, 10'000 * kMs, 9'000 * kMs);
  EXPECT_EQ(look(a_, 10 * kMs, 10'000 * kMs, 9'000 * kMs).size(),
            static_cast<size_t>(kMaxUnreadWindows));
  EXPECT_TRUE(turn_.owning) << "it is next in turn as soon as it is back";
}

TEST_F(TimelineTest, SlicesRenewedBehindTheScenesAreCountedForALatecomer) {
  look(a_, 10 * kMs, 500 * kMs, 10 * kMs);
  // The owner ran alone through 10..12, 12..14 and so on; its present slice ends at 22.
  EXPECT_EQ(look(b_, 21 * kMs, 5 * kMs, 21 * kMs), Windows{});
  EXPECT_EQ(turn_.turn_at_ns, 22 * kMs);
}

TEST_F(TimelineTest, FinishingHandsOverAtOnce) {
  look(a_, 10 * kMs, 1 * kMs, 10 * kMs);
  look(b_, 10 * kMs, 5 * kMs, 10 * kMs);
  look(a_, 10 * kMs, 1 * kMs, 11 * kMs);
  EXPECT_TRUE(timeline_->owns(b_));
}

TEST_F(TimelineTest, AChannelOfADeadProcessGetsNoTurn) {
  const int dead = timeline_->open_channel(slot_ + 1);  // nobody lives there
  look(dead, 10 * kMs, 100 * kMs, 10 * kMs);
  EXPECT_FALSE(timeline_->owns(dead));
  EXPECT_EQ(look(a_, 10 * kMs, 5 * kMs, 12 * kMs), (Windows{{10 * kMs, 12 * kMs}}));
}

TEST_F(TimelineTest, RepairForgetsAnOwnerThatIsNoChannel) {
  state_->gpu(0).owner = 77;
  repair_timeline(&state_->gpu(0));
  EXPECT_EQ(state_->gpu(0).owner, -1);
}

TEST_F(TimelineTest, GpuTimeIsCountedForTheGpuTheChannelAndTheProcess) {
  timeline_->account(a_, slot_, 5 * kMs, 8 * kMs);
  EXPECT_EQ(state_->gpu(0).busy_ns.load(), 3 * kMs);
  EXPECT_EQ(timeline_->channel(a_).consumed_ns.load(), 3 * kMs);
  EXPECT_EQ(state_->shared().slot[slot_].gpu[0].consumed_ns.load(), 3 * kMs);
}

}  // namespace
}  // namespace divvy::simgpu
