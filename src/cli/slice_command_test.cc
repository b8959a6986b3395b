#include "cli/slice_command.h"

#include <gtest/gtest.h>

#include "cli/testing.h"

namespace divvy::cli {
namespace {

std::string part(int gpu, bool capped) {
  return R"({"gpu":{"index":)" + std::to_string(gpu) +
         R"(},"shareThousandths":300,"memoryUsedBytes":1073741824,"memoryLimitBytes":10737418240,)"
         R"("capped":)" +
         (capped ? "true}" : "false}");
}

TEST(SliceTable, HasALineForEveryGpuOfASlice) {
  const auto table = slice_table(
      R"({"items":[{"name":"web","user":"ada","device":"divvy.dev/slice=web","processes":[{},{}],)"
      R"("slices":[)" +
          part(0, false) + "," + part(3, true) + "]}]}",
      plain_style());
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(*table,
            "SLICE  USER  GPU  SHARE     MEMORY     LIMIT  PROCS  DEVICE\n"
            "web    ada     0  0.3      1.0 GiB  10.0 GiB      2  divvy.dev/slice=web\n"
            "               3  0.3 cap  1.0 GiB  10.0 GiB\n");
}

TEST(SliceTable, SaysThatThereIsNone) {
  EXPECT_EQ(slice_table(R"({"items":[]})", plain_style()).value(),
            "no slice is held for containers\n");
}

TEST(SliceTable, SaysThatItDidNotUnderstand) {
  for (const char* answer : {"", "[]", R"({"items":[{}]})"}) {
    const auto table = slice_table(answer, plain_style());
    ASSERT_FALSE(table.has_value()) << answer;
    EXPECT_NE(table.error().message.find("was not understood"), std::string::npos);
  }
}

}  // namespace
}  // namespace divvy::cli
