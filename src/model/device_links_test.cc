#include "model/device_links.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace divvy::model {
namespace {

// Eight GPUs: switches of two, islands and NUMA nodes of four.
DeviceLinks linked() {
  std::vector<DeviceGroups> devices;
  for (std::uint32_t i = 0; i < 8; ++i) devices.push_back({i / 4, i / 2, i / 4});
  return DeviceLinks(devices);
}

TEST(DeviceLinks, TakesALinkedPairBeforeAnUnlinkedOne) {
  const std::vector<DeviceGroups> devices{{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {1, 3, 0}};
  const DeviceLinks links(devices);
  EXPECT_TRUE(links.matter());
  EXPECT_EQ(links.closest(0b1111, 2, 0b1111), 0b1010U);
  EXPECT_EQ(links.closest(0b0111, 2, 0b0111), 0b0011U);
}

TEST(DeviceLinks, ASingleGpuComesFromAnIslandThatIsBrokenAlready) {
  EXPECT_EQ(linked().closest(0b1111'1110, 1, 0b1111'1110), 0b0000'0010U);
  // Of two broken islands the one with less left beside it.
  EXPECT_EQ(linked().closest(0b0111'1100, 1, 0b0111'1100), 0b0100'0000U);
}

TEST(DeviceLinks, DoNotMatterWhereAllAreAlikeOrNothingIsKnown) {
  EXPECT_FALSE(DeviceLinks(std::vector<DeviceGroups>(4)).matter());
  EXPECT_FALSE(DeviceLinks(std::vector<DeviceGroups>(4, {0, 0, 0})).matter());
  EXPECT_EQ(DeviceLinks(std::vector<DeviceGroups>(4)).closest(0b1110, 2, 0b1110), 0b0110U);
}

RC_GTEST_PROP(DeviceLinksProperty, ClosestGivesAsManyCandidatesAsWanted, ()) {
  std::vector<DeviceGroups> devices(8);
  for (DeviceGroups& device : devices) {
    device = {*rc::gen::inRange(0U, 4U), *rc::gen::inRange(0U, 4U), *rc::gen::inRange(0U, 2U)};
  }
  const DeviceLinks links(devices);
  const auto candidates = *rc::gen::inRange<std::uint32_t>(1, 256);
  const auto most = static_cast<std::uint32_t>(std::popcount(candidates));
  const auto wanted = *rc::gen::inRange<std::uint32_t>(1, most + 1);
  const auto chosen = links.closest(candidates, wanted, candidates);
  RC_ASSERT((chosen & ~candidates) == 0U);
  RC_ASSERT(static_cast<std::uint32_t>(std::popcount(chosen)) == wanted);
}

}  // namespace
}  // namespace divvy::model
