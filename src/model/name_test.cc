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

TEST(Name, RefusesNamesReservedForMembersAndNumbers) {
  for (const char* name : {"job-8.1.0", "job-8", "job-0x", "7", "007"}) {
    EXPECT_TRUE(is_reserved_tenant_name(name)) << name;
  }
  for (const char* name : {"job", "job-", "job-a", "jobs-8.1.0", "train-8.1.0", "a7", ""}) {
    EXPECT_FALSE(is_reserved_tenant_name(name)) << name;
  }
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
