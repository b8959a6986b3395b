#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace divvy {
namespace {

using AppleId = StrongId<struct AppleTag>;
using PearId = StrongId<struct PearTag, std::uint64_t>;

static_assert(!std::is_convertible_v<int, AppleId>);
static_assert(!std::is_convertible_v<AppleId, PearId>);
static_assert(!std::is_convertible_v<AppleId, std::uint32_t>);
static_assert(sizeof(AppleId) == sizeof(std::uint32_t));

TEST(StrongId, OrdersAndCountsLikeItsNumber) {
  EXPECT_LT(AppleId(1), AppleId(2));
  EXPECT_EQ(AppleId(1).next(), AppleId(2));
  EXPECT_EQ(AppleId().value(), 0U);
}

TEST(StrongId, CanBeAKey) {
  const std::unordered_set<PearId> pears{PearId(1), PearId(2), PearId(1)};
  EXPECT_EQ(pears.size(), 2U);
}

TEST(StrongId, PrintsAsItsNumber) { EXPECT_EQ(fmt::format("[{:>3}]", PearId(42)), "[ 42]"); }

}  // namespace
}  // namespace divvy
