#include "shim/allocations.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace divvy::shim {
namespace {

Allocation sized(uint64_t bytes) {
  Allocation allocation;
  allocation.bytes = bytes;
  return allocation;
}

TEST(Allocations, GiveBackWhatWasPutIn) {
  const auto table = std::make_unique<AllocationTable>();
  Allocation found;
  EXPECT_FALSE(table->find(4096, &found));
  EXPECT_FALSE(table->remove(0, &found));
  EXPECT_TRUE(table->insert(4096, sized(7)));
  EXPECT_TRUE(table->find(4096, &found));
  EXPECT_EQ(found.bytes, 7U);
  EXPECT_TRUE(table->insert(4096, sized(8))) << "an address that came round again";
  EXPECT_TRUE(table->remove(4096, &found));
  EXPECT_EQ(found.bytes, 8U);
  EXPECT_FALSE(table->remove(4096, &found));
  table->clear();
}

// Few keys: most entries are the only one of their shard.
class AnyHistory : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Keys, AnyHistory, ::testing::Values(40, 5000));

TEST_P(AnyHistory, AgreesWithAMap) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand random(seed);
  const auto table = std::make_unique<AllocationTable>();
  std::map<uint64_t, uint64_t> model;
  for (int step = 0; step < 200'000; ++step) {
    const uint64_t key = (random() % GetParam() + 1) * 512;
    Allocation found;
    if (random() % 2 == 0) {
      table->insert(key, sized(static_cast<uint64_t>(step)));
      model[key] = static_cast<uint64_t>(step);
    } else {
      const bool known = table->remove(key, &found);
      ASSERT_EQ(known, model.contains(key));
      if (known) {
        ASSERT_EQ(found.bytes, model[key]);
      }
      model.erase(key);
    }
  }
  size_t left = 0;
  table->remove_if([&](uint64_t key, const Allocation& each) {
    ++left;
    EXPECT_EQ(each.bytes, model.at(key));
    return true;
  });
  EXPECT_EQ(left, model.size());
  table->clear();
}

TEST(Allocations, RemoveIfLooksAtEveryEntryOnceEachStays) {
  const auto table = std::make_unique<AllocationTable>();
  for (uint64_t key = 1; key <= 3000; ++key) table->insert(key << 21U, sized(key));
  table->remove_if([](uint64_t, const Allocation& each) { return each.bytes % 3 == 0; });
  Allocation found;
  for (uint64_t key = 1; key <= 3000; ++key) {
    EXPECT_EQ(table->find(key << 21U, &found), key % 3 != 0);
  }
  table->clear();
}

TEST(Allocations, UpdateKeepsOrDrops) {
  const auto table = std::make_unique<AllocationTable>();
  table->insert(64, sized(1));
  EXPECT_TRUE(table->update(64, [](Allocation& each) {
    each.count = 5;
    return true;
  }));
  Allocation found;
  EXPECT_TRUE(table->find(64, &found));
  EXPECT_EQ(found.count, 5U);
  EXPECT_TRUE(table->update(64, [](Allocation&) { return false; }));
  EXPECT_FALSE(table->update(64, [](Allocation&) { return true; }));
  table->clear();
}

TEST(Allocations, ThreadsDoNotDisturbEachOther) {
  const auto table = std::make_unique<AllocationTable>();
  std::vector<std::thread> threads;
  for (uint64_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 1; i <= 5000; ++i) {
        const uint64_t key = (i * 8 + thread) << 12U;
        table->insert(key, sized(key));
        Allocation found;
        EXPECT_TRUE(table->find(key, &found));
        EXPECT_EQ(found.bytes, key);
        if (i % 2 == 0) {
          EXPECT_TRUE(table->remove(key, &found));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  table->clear();
}

}  // namespace
}  // namespace divvy::shim
