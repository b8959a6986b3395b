#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace divvy::cli {
namespace {

TEST(Progress, WritesNothingWhereNobodyLooks) {
  std::ostringstream err;
  {
    Progress progress(err, false, {});
    progress.show(1, 2, "fgd");
  }
  EXPECT_EQ(err.str(), "");
}

TEST(Progress, DrawsABarAndTakesItAwayAgain) {
  std::ostringstream err;
  {
    Progress progress(err, true, {});
    progress.show(1, 2, "fgd");
    EXPECT_EQ(err.str(), "\r\x1b[K###############...............  50 % fgd");
  }
  EXPECT_TRUE(err.str().ends_with("\r\x1b[K"));
}

TEST(Progress, WritesOnlyWhatLooksDifferent) {
  std::ostringstream err;
  Progress progress(err, true, {});
  progress.show(500, 1000, "a");
  const std::string before = err.str();
  progress.show(501, 1000, "a");
  EXPECT_EQ(err.str(), before);
  progress.show(510, 1000, "a");
  EXPECT_NE(err.str(), before);
}

TEST(Progress, KeepsToItsLineAndIsNotFooledByNamesAndNumbers) {
  std::ostringstream err;
  Style narrow;
  narrow.columns = 40;
  Progress progress(err, true, narrow);
  progress.show(7, 5, std::string(100, 'x') + "\x1b[2J");
  EXPECT_LT(err.str().size(), 60U);
  EXPECT_EQ(err.str().find("\x1b[2J"), std::string::npos);
  progress.show(1, 0, "nothing to do");
}

}  // namespace
}  // namespace divvy::cli
