#include "sys/process.h"

#include <gtest/gtest.h>

namespace divvy::sys {
namespace {

TEST(Process, IsIdentifiedByPidAndStartTime) {
  const auto born = start_ticks(::getpid());
  ASSERT_TRUE(born.has_value());
  EXPECT_TRUE(open_process(ProcessName{::getpid(), *born}).has_value());
  EXPECT_FALSE(open_process(ProcessName{::getpid(), *born + 1}).has_value());
  EXPECT_FALSE(start_ticks(0x3ffffffe).has_value());
  EXPECT_EQ(open_process(0x3ffffffe).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(owner_of(::getpid()), ::getuid());
}

}  // namespace
}  // namespace divvy::sys
