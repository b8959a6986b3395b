#include "sys/subordinate_ids.h"

#include <gtest/gtest.h>

namespace divvy::sys {
namespace {

using Ranges = std::vector<IdRange>;

TEST(SubordinateIds, AreThoseOfTheUserByNameOrNumber) {
  constexpr std::string_view kText =
      "bob:100000:65536\nada:165536:65536\n1000:300000:10\nadalbert:400000:5\n";
  EXPECT_EQ(parse_subordinate_ids(kText, "ada", 1000), (Ranges{{165536, 65536}, {300000, 10}}));
  EXPECT_EQ(count_of(parse_subordinate_ids(kText, "ada", 1000)), 65546U);
  EXPECT_EQ(parse_subordinate_ids(kText, "eve", 1002), Ranges{});
}

TEST(SubordinateIds, LeaveOutWhatMakesNoSense) {
  for (const char* line :
       {"ada", "ada:1", "ada:x:5", "ada:5:x", "ada:5:0", "ada:5:6:7", "ada:-1:5", "ada:5:-1",
        "ada:4294967290:6", "ada:99999999999:1", ":5:6", "", "ada: :"}) {
    EXPECT_EQ(parse_subordinate_ids(line, "ada", 7), Ranges{}) << line;
  }
}

// A range that begins with root would make a container's user root outside.
TEST(SubordinateIds, NeverHoldRoot) {
  EXPECT_EQ(parse_subordinate_ids("ada:0:65536\nada:1000:1\n", "ada", 7), (Ranges{{1000, 1}}));
}

TEST(SubordinateIds, AreNoneWithoutAFile) {
  EXPECT_EQ(read_subordinate_ids("/no/such/file", "ada", 7), Ranges{});
}

}  // namespace
}  // namespace divvy::sys
