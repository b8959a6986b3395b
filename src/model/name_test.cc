#include "model/name.h"

#include <gtest/gtest.h>

#include <string>

namespace divvy::model {
namespace {

TEST(Name, TakesOrdinaryNames) {
  for (const auto* name : {"a", "train-7b", "team_a.eval", "7", "A.b-C_d"}) {
    EXPECT_TRUE(check_name("job", name).has_value()) << name;
  }
  EXPECT_TRUE(check_name("job", std::string(128, 'x')).has_value());
}

TEST(Name, RefusesWhatIsNotSafeEverywhere) {
  for (const auto* name :
       {"", "-a", "a-", ".", "..", "a b", "a/b", "a\nb", "\x1b[2J", "k\xC3\xA4se"}) {
    EXPECT_FALSE(check_name("job", name).has_value()) << name;
  }
  EXPECT_FALSE(check_name("job", std::string(129, 'x')).has_value());
}

TEST(Name, ShowsThePlace) {
  EXPECT_EQ(
      check_name("job", "my job").error().message,
      "cannot read \"my job\" as the name of a job: only letters, digits and . _ - are allowed\n"
      "  my job\n"
      "    ^\n"
      "write it like train-7b or team_a.eval");
}

}  // namespace
}  // namespace divvy::model
