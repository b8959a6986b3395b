#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace divvy {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return err(ErrorCode::kInvalidArgument, "{} is odd", number);
  return number / 2;
}

Result<int> quarter(int number) {
  DIVVY_TRY(halved, half(number));
  DIVVY_TRY(quartered, half(halved));
  return quartered;
}

Status require_even(int number) {
  DIVVY_RETURN_IF_ERROR(half(number));
  return {};
}

TEST(Result, TryGivesTheValue) { EXPECT_EQ(quarter(12), 3); }

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(3).error(), (Error{ErrorCode::kInvalidArgument, "3 is odd"}));
  EXPECT_EQ(quarter(6).error(), (Error{ErrorCode::kInvalidArgument, "3 is odd"}));
}

TEST(Result, CheckOkPassesErrorsOnAndSuccessBy) {
  EXPECT_TRUE(require_even(2).has_value());
  EXPECT_EQ(require_even(1).error().message, "1 is odd");
}

TEST(Result, TryMovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    DIVVY_TRY(pointer, make());
    return *pointer;
  };
  EXPECT_EQ(use(), 7);
}

TEST(Result, ContextGoesInFrontAndKeepsTheCode) {
  const auto failed = with_context(half(5), "reading gpu 0");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), (Error{ErrorCode::kInvalidArgument, "reading gpu 0: 5 is odd"}));
  EXPECT_EQ(with_context(half(4), "reading gpu 0"), 2);
  EXPECT_EQ(with_context(require_even(5), "x").error().message, "x: 5 is odd");
}

TEST(Result, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    EXPECT_NE(to_string(static_cast<ErrorCode>(code)), "unknown") << code;
  }
}

}  // namespace
}  // namespace divvy
