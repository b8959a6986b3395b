#include "model/gpu_uuid.h"

#include <gtest/gtest.h>

#include <unordered_set>
#include <utility>
#include <vector>

#include "model/testing.h"

namespace divvy::model {
namespace {

constexpr std::string_view kGood = "GPU-5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e13";

TEST(GpuUuid, KeepsWhatTheDriverPrints) {
  const auto uuid = GpuUuid::parse(kGood);
  ASSERT_TRUE(uuid.has_value());
  EXPECT_EQ(uuid->str(), kGood);
  EXPECT_EQ(fmt::format("{}", *uuid), kGood);
}

TEST(GpuUuid, UpperAndLowerCaseAreTheSameGpu) {
  EXPECT_EQ(GpuUuid::parse("GPU-5C2F9D1E-0B7A-4E63-9F18-2D4C6A8B0E13"), GpuUuid::parse(kGood));
}

TEST(GpuUuid, PointsAtWhatIsWrong) {
  const std::vector<std::pair<std::string, std::size_t>> cases{
      {"", 0},
      {"5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e13", 0},
      {"gpu-5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e13", 0},
      {"GPU-5c2f9d1x-0b7a-4e63-9f18-2d4c6a8b0e13", 11},
      {"GPU-5c2f9d1e_0b7a-4e63-9f18-2d4c6a8b0e13", 12},
      {"GPU-5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e1", 39},
      {"GPU-5c2f9d1e-0b7a-4e63-9f18-2d4c6a8b0e13 ", 40},
  };
  for (const auto& [text, place] : cases) {
    const auto uuid = GpuUuid::parse(text);
    ASSERT_FALSE(uuid.has_value()) << text;
    const std::string caret = "\n  " + std::string(place, ' ') + "^\nwrite it like GPU-";
    EXPECT_NE(uuid.error().message.find(caret), std::string::npos) << uuid.error().message;
  }
}

TEST(GpuUuid, CanBeAKey) {
  const std::unordered_set<GpuUuid> uuids{test_uuid(1), test_uuid(2), test_uuid(1)};
  EXPECT_EQ(uuids.size(), 2U);
  EXPECT_LT(test_uuid(1), test_uuid(2));
}

}  // namespace
}  // namespace divvy::model
