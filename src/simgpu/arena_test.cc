#include "simgpu/arena.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <random>
#include <vector>

namespace divvy::simgpu {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// A GPU that only counts.
class ArenaTest : public ::testing::Test {
 protected:
  uint64_t charged_ = 0;
  uint64_t capacity_ = 64 * kMebibyte;
  Arena arena_{"arena-test",
               [this](uint64_t bytes) {
                 if (bytes > capacity_ - charged_) return false;
                 charged_ += bytes;
                 return true;
               },
               [this](uint64_t bytes) { charged_ -= bytes; }};
};

TEST_F(ArenaTest, SmallAllocationsShareASlab) {
  const uint64_t a = arena_.allocate(1);
  EXPECT_EQ(charged_, 2 * kMebibyte);
  const uint64_t b = arena_.allocate(1);
  EXPECT_EQ(b, a + 512);
  EXPECT_EQ(charged_, 2 * kMebibyte);
  arena_.free(a, 1);
  EXPECT_EQ(charged_, 2 * kMebibyte);
  arena_.free(b, 1);
  EXPECT_EQ(charged_, 0u);
}

TEST_F(ArenaTest, TwoMebibytesAndMoreAreRoundedToWholeSlabs) {
  const uint64_t a = arena_.allocate(2 * kMebibyte);
  EXPECT_EQ(charged_, 2 * kMebibyte);
  const uint64_t b = arena_.allocate(2 * kMebibyte + 1);
  EXPECT_EQ(charged_, 6 * kMebibyte);
  EXPECT_EQ(a % (2 * kMebibyte), 0u);
  EXPECT_EQ(b % (2 * kMebibyte), 0u);
  arena_.free(b, 2 * kMebibyte + 1);
  arena_.free(a, 2 * kMebibyte);
  EXPECT_EQ(charged_, 0u);
}

TEST_F(ArenaTest, TheTightestGapIsTakenFirst) {
  const uint64_t a = arena_.allocate(kMebibyte + 512);
  const uint64_t b = arena_.allocate(kMebibyte + 4096);
  EXPECT_EQ(charged_, 4 * kMebibyte);
  // The second slab has the smaller rest.
  EXPECT_EQ(arena_.allocate(512 << 10), b + kMebibyte + 4096);
  EXPECT_EQ(arena_.allocate(kMebibyte - 512), a + kMebibyte + 512);
  EXPECT_EQ(charged_, 4 * kMebibyte);
}

TEST_F(ArenaTest, LinearAndTiledMemoryDoNotShareSlabs) {
  arena_.allocate(512, Arena::Family::kLinear);
  arena_.allocate(512, Arena::Family::kTiled);
  EXPECT_EQ(charged_, 4 * kMebibyte);
}

TEST_F(ArenaTest, ARefusedAllocationChangesNothing) {
  const uint64_t a = arena_.allocate(62 * kMebibyte);
  ASSERT_NE(a, 0u);
  EXPECT_EQ(arena_.allocate(3 * kMebibyte), 0u);
  EXPECT_EQ(charged_, 62 * kMebibyte);
  const uint64_t b = arena_.allocate(100);
  EXPECT_NE(b, 0u);
  EXPECT_EQ(arena_.allocate(2 * kMebibyte - 1), 0u);
  EXPECT_EQ(charged_, 64 * kMebibyte);
  arena_.free(a, 62 * kMebibyte);
  EXPECT_NE(arena_.allocate(62 * kMebibyte), 0u);
}

TEST_F(ArenaTest, AbsurdSizesAreRefused) {
  EXPECT_EQ(arena_.allocate(0), 0u);
  EXPECT_EQ(arena_.allocate(UINT64_MAX), 0u);
  EXPECT_EQ(arena_.reserve(uint64_t{1} << 60), 0u);
  EXPECT_EQ(charged_, 0u);
}

TEST_F(ArenaTest, FreedLargeMemoryGoesBackToTheHost) {
  const uint64_t a = arena_.allocate(16 * kMebibyte);
  memset(reinterpret_cast<void*>(a), 1, 16 * kMebibyte);
  struct stat before{};
  fstat(arena_.descriptor(), &before);
  arena_.free(a, 16 * kMebibyte);
  struct stat after{};
  fstat(arena_.descriptor(), &after);
  EXPECT_EQ(before.st_blocks - after.st_blocks, static_cast<int64_t>(16 * kMebibyte / 512));
}

TEST_F(ArenaTest, BackingFindsTheSameBytesInTheFile) {
  const uint64_t a = arena_.allocate(4096);
  memcpy(reinterpret_cast<void*>(a), "hello", 6);
  const auto where = arena_.backing(a);
  ASSERT_TRUE(where.has_value());
  const uint64_t page = where->offset / 4096 * 4096;
  void* again = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, where->fd, static_cast<off_t>(page));
  ASSERT_NE(again, MAP_FAILED);
  EXPECT_STREQ(static_cast<char*>(again) + (where->offset - page), "hello");
  munmap(again, 8192);
  EXPECT_FALSE(arena_.backing(1).has_value());
}

TEST_F(ArenaTest, ReservedAddressesAreNotCharged) {
  const uint64_t a = arena_.reserve(uint64_t{10} << 30);
  ASSERT_NE(a, 0u);
  EXPECT_EQ(charged_, 0u);
  auto* last = reinterpret_cast<char*>(a) + (uint64_t{10} << 30) - 1;
  *last = 7;
  EXPECT_EQ(*last, 7);
  arena_.unreserve(a, uint64_t{10} << 30);
  EXPECT_EQ(arena_.reserve(uint64_t{10} << 30), a);
}

TEST_F(ArenaTest, AllocationsNeverOverlapAndEverythingComesBack) {
  std::mt19937_64 random(1);
  std::map<uint64_t, uint64_t> live;
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() < 40 && random() % 2 == 0) {
      const uint64_t size = 1 + (uint64_t{1} << (random() % 23)) * (1 + random() % 3) / 2;
      const uint64_t at = arena_.allocate(size);
      if (at == 0) continue;
      const auto next = live.lower_bound(at);
      if (next != live.end()) {
        ASSERT_LE(at + size, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, at);
      }
      live[at] = size;
    } else if (!live.empty()) {
      auto victim = live.begin();
      std::advance(victim, static_cast<long>(random() % live.size()));
      arena_.free(victim->first, victim->second);
      live.erase(victim);
    }
    ASSERT_LE(charged_, capacity_);
  }
  for (const auto& [at, size] : live) arena_.free(at, size);
  EXPECT_EQ(charged_, 0u);
}

TEST(FreeRanges, NeighboursMergeButNotOverABoundary) {
  FreeRanges ranges(4096);
  ranges.give(0, 4096);
  EXPECT_EQ(ranges.give(4096, 4096).size, 4096u);
  EXPECT_EQ(ranges.all().size(), 2u);
  FreeRanges plain;
  plain.give(0, 4096);
  EXPECT_EQ(plain.give(4096, 4096).size, 8192u);
  EXPECT_TRUE(plain.take_at(1024, 512));
  EXPECT_FALSE(plain.take_at(1024, 512));
  EXPECT_EQ(plain.total(), 8192u - 512u);
}

TEST(FreeRanges, AlignmentIsKept) {
  FreeRanges ranges;
  ranges.give(512, 8192);
  EXPECT_EQ(ranges.take(1024, 4096), 4096u);
  EXPECT_EQ(ranges.take(100'000, 512), std::nullopt);
}

}  // namespace
}  // namespace divvy::simgpu
