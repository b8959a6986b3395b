#include "shim/account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace divvy::shim {
namespace {

constexpr uint64_t kMiB = 1U << 20U;

class AccountTest : public ::testing::Test {
 protected:
  AccountTest() {
    control_->gpu[0].memory_limit = 100 * kMiB;
    page_->slot_high = 3;
  }
  SliceAccount process(int slot) { return {&control_->gpu[0], page_.get(), slot, 0}; }
  static bool take(const SliceAccount& slice, uint64_t bytes) {
    uint64_t in_use = 0;
    return shim::take(slice, bytes, &in_use);
  }

  std::unique_ptr<wire::ControlPage> control_ = std::make_unique<wire::ControlPage>();
  std::unique_ptr<wire::AccountPage> page_ = std::make_unique<wire::AccountPage>();
};

TEST_F(AccountTest, SumsAllProcesses) {
  ASSERT_TRUE(take(process(0), 60 * kMiB));
  EXPECT_FALSE(take(process(1), 41 * kMiB));
  ASSERT_TRUE(take(process(1), 40 * kMiB));
  EXPECT_EQ(bytes_in_use(process(2)), 100 * kMiB);
  EXPECT_EQ(page_->slot[1].gpu[0].refused, 1U);
  uncharge(process(0), 60 * kMiB);
  EXPECT_TRUE(take(process(2), 60 * kMiB));
}

// Also what is counted before anybody has looked.
TEST_F(AccountTest, StopsAtTheLimitToTheByteInSmallPieces) {
  uint64_t taken = 0;
  while (take(process(0), kMiB)) taken += kMiB;
  EXPECT_EQ(taken, 100 * kMiB);
  EXPECT_EQ(bytes_in_use(process(0)), 100 * kMiB);
  uncharge(process(0), 1000);
  EXPECT_FALSE(take(process(1), 1001));
  EXPECT_TRUE(take(process(1), 1000));
}

TEST_F(AccountTest, TellsWhatAllUseTogether) {
  uint64_t in_use = 0;
  ASSERT_TRUE(shim::take(process(0), 60 * kMiB, &in_use));
  ASSERT_TRUE(shim::take(process(1), kMiB, &in_use));
  EXPECT_EQ(in_use, 61 * kMiB);
}

TEST_F(AccountTest, WhatIsPendingCounts) {
  page_->slot[0].gpu[0].pending = 60 * kMiB;
  EXPECT_EQ(bytes_in_use(process(1)), 60 * kMiB);
  EXPECT_FALSE(take(process(1), 41 * kMiB));
}

// What another has pending may come to nothing: it is waited for before the slice is called full.
TEST_F(AccountTest, WaitsForWhatOthersHavePending) {
  page_->slot[0].gpu[0].pending = 80 * kMiB;
  std::thread other([&] {
    // Whether it is asked for before this or after, it must be given.
    page_->slot[0].gpu[0].pending = 0;
  });
  EXPECT_TRUE(take(process(1), 40 * kMiB));
  other.join();
}

TEST_F(AccountTest, WhatTheDaemonFoundBesidesCounts) {
  control_->gpu[0].uncounted_bytes = 70 * kMiB;
  EXPECT_FALSE(take(process(0), 31 * kMiB));
  EXPECT_TRUE(take(process(0), 30 * kMiB));
}

TEST_F(AccountTest, ALoweredLimitHoldsFromTheNextCallOn) {
  ASSERT_TRUE(take(process(0), 50 * kMiB));
  control_->gpu[0].memory_limit = 40 * kMiB;
  EXPECT_FALSE(take(process(0), 1));
  control_->gpu[0].memory_limit = 51 * kMiB;
  EXPECT_TRUE(take(process(0), 1 * kMiB));
}

TEST_F(AccountTest, RequestsBeyondAllSenseAreRefusedAndDoNotWrap) {
  EXPECT_FALSE(take(process(0), UINT64_MAX));
  EXPECT_FALSE(take(process(0), UINT64_MAX / 2));
  EXPECT_EQ(bytes_in_use(process(0)), 0U);
  EXPECT_GT(allocation_bytes(UINT64_MAX), 100 * kMiB);
}

TEST_F(AccountTest, AClearedSlotGivesItsMemoryToTheOthers) {
  ASSERT_TRUE(take(process(0), 100 * kMiB));
  EXPECT_FALSE(take(process(2), kMiB));
  page_->slot[0].gpu[0].used = 0;  // as the daemon does for a dead process
  EXPECT_TRUE(take(process(2), 100 * kMiB));
}

TEST_F(AccountTest, RemembersThePeakOfAProcess) {
  charge(process(0), 30 * kMiB);
  uncharge(process(0), 20 * kMiB);
  charge(process(0), 5 * kMiB);
  EXPECT_EQ(page_->slot[0].gpu[0].peak, 30 * kMiB);
}

TEST(AllocationBytes, RoundsAsTheDriverDoes) {
  EXPECT_EQ(allocation_bytes(1), 512U);
  EXPECT_EQ(allocation_bytes(512), 512U);
  EXPECT_EQ(allocation_bytes(kMiB), 2 * kMiB);
  EXPECT_EQ(allocation_bytes(2 * kMiB + 1), 4 * kMiB);
}

// Many threads of several processes at once: never more than the limit, and nothing is lost.
TEST_F(AccountTest, HoldsTheLimitUnderContention) {
  std::atomic<uint64_t> given{0};
  std::vector<std::thread> threads;
  for (int slot = 0; slot < 3; ++slot) {
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([this, slot, &given] {
        for (int round = 0; round < 300; ++round) {
          if (!take(process(slot), 30 * kMiB)) continue;
          EXPECT_LE(given.fetch_add(30 * kMiB) + 30 * kMiB, 100 * kMiB);
          given.fetch_sub(30 * kMiB);
          uncharge(process(slot), 30 * kMiB);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes_in_use(process(0)), 0U);
}

}  // namespace
}  // namespace divvy::shim
