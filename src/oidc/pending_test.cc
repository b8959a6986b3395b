#include "oidc/pending.h"

#include <gtest/gtest.h>

namespace divvy::oidc {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart{};

TEST(PendingSignIns, AreTakenOnce) {
  Pending<int> pending(10);
  ASSERT_TRUE(pending.add("a", "10.0.0.7", 1, kStart + seconds(10), kStart));
  EXPECT_EQ(pending.take("b", kStart), std::nullopt);
  EXPECT_EQ(pending.take("a", kStart), 1);
  EXPECT_EQ(pending.take("a", kStart), std::nullopt);
}

TEST(PendingSignIns, EndByThemselves) {
  Pending<int> pending(1);
  ASSERT_TRUE(pending.add("a", "10.0.0.7", 1, kStart + seconds(10), kStart));
  EXPECT_EQ(pending.update("a", kStart + seconds(9), [](int& value) { ++value; }), 2);
  EXPECT_EQ(pending.update("a", kStart + seconds(10), [](int&) {}), std::nullopt);
  EXPECT_TRUE(pending.add("b", "10.0.0.7", 1, kStart + seconds(20), kStart + seconds(10)));
  EXPECT_EQ(pending.size(), 1U) << "what has ended takes no place";
  EXPECT_EQ(pending.take("b", kStart + seconds(20)), std::nullopt);
}

TEST(PendingSignIns, AreSoManyAndNoMore) {
  Pending<int> pending(3, 2);
  const TimePoint end = kStart + seconds(10);
  EXPECT_TRUE(pending.add("a", "10.0.0.7", 1, end, kStart));
  EXPECT_TRUE(pending.add("b", "10.0.0.7", 1, end, kStart));
  EXPECT_EQ(pending.add("c", "10.0.0.7", 1, end, kStart).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(pending.check_room("10.0.0.7", kStart));
  EXPECT_TRUE(pending.add("c", "10.0.0.8", 1, end, kStart));
  EXPECT_EQ(pending.add("d", "10.0.0.9", 1, end, kStart).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(pending.add("c", "10.0.0.9", 1, end, kStart).error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(pending.check_room("10.0.0.7", end));
}

}  // namespace
}  // namespace divvy::oidc
