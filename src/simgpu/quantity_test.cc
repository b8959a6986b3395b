#include "simgpu/quantity.h"

#include <gtest/gtest.h>

namespace divvy::simgpu {
namespace {

TEST(Quantity, ReadsSizesAsPeopleWriteThem) {
  std::string error;
  EXPECT_EQ(parse_size("141GiB", &error), uint64_t{141} << 30U);
  EXPECT_EQ(parse_size("512Mi", &error), uint64_t{512} << 20U);
  EXPECT_EQ(parse_size("80G", &error), 80'000'000'000U);
  EXPECT_EQ(parse_size("1.5GiB", &error), (uint64_t{3} << 30U) / 2);
  EXPECT_EQ(parse_size("2 TiB", &error), uint64_t{2} << 40U);
  EXPECT_EQ(parse_size("4096", &error), 4096U);
}

TEST(Quantity, ReadsTimes) {
  std::string error;
  EXPECT_EQ(parse_duration_ns("2ms", &error), 2'000'000U);
  EXPECT_EQ(parse_duration_ns("1.5s", &error), 1'500'000'000U);
  EXPECT_EQ(parse_duration_ns("0ns", &error), 0U);
}

TEST(Quantity, SaysWhatIsWrongAndWhatWouldBeRight) {
  std::string error;
  EXPECT_FALSE(parse_size("much", &error));
  EXPECT_EQ(error, "'much' is no size: it does not begin with a number (right would be 141GiB)");
  EXPECT_FALSE(parse_duration_ns("5", &error));
  EXPECT_EQ(error, "'5' is no time: the unit is missing (right would be 2ms)");
  EXPECT_FALSE(parse_duration_ns("5min", &error));
  EXPECT_EQ(error, "'5min' is no time: 'min' is no unit of it (right would be 2ms)");
  EXPECT_FALSE(parse_size("", &error));
  EXPECT_FALSE(parse_size("-1GiB", &error));
  EXPECT_FALSE(parse_size("1.2.3GiB", &error));
  EXPECT_FALSE(parse_size("999999999TiB", &error));
  EXPECT_FALSE(parse_size("1234567890123456789", &error));
}

TEST(Quantity, PrintsWithTheLargestUnitThatFits) {
  EXPECT_EQ(format_size(uint64_t{141} << 30U), "141 GiB");
  EXPECT_EQ(format_size((uint64_t{3} << 30U) / 2), "1.5 GiB");
  EXPECT_EQ(format_size(512U << 20U), "512 MiB");
  EXPECT_EQ(format_size(17), "17 B");
  EXPECT_EQ(format_duration(1'500'000), "1.5 ms");
  EXPECT_EQ(format_duration(3'000'000'000), "3 s");
}

}  // namespace
}  // namespace divvy::simgpu
