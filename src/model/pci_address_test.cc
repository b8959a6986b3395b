#include "model/pci_address.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

namespace divvy::model {
namespace {

TEST(PciAddress, ReadsTheFormsOfDriverAndKernel) {
  const auto address = PciAddress::parse("00000000:18:00.0");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->bus(), 0x18);
  EXPECT_EQ(PciAddress::parse("0000:18:00.0"), address);
  EXPECT_EQ(PciAddress::parse("18:00.0"), address);
  EXPECT_EQ(PciAddress::parse("00000000:AB:1F.7"), PciAddress::parse("00000000:ab:1f.7"));
}

TEST(PciAddress, PrintsBothForms) {
  const auto address = PciAddress::create(1, 0xAB, 0x1F, 7);
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(to_string(*address), "00000001:AB:1F.7");
  EXPECT_EQ(to_sysfs_name(*address), "0001:ab:1f.7");
}

TEST(PciAddress, RefusesWhatNoBusHas) {
  EXPECT_FALSE(PciAddress::create(0, 0x100, 0, 0).has_value());
  EXPECT_FALSE(PciAddress::create(0, 0, 0x20, 0).has_value());
  EXPECT_FALSE(PciAddress::create(0, 0, 0, 8).has_value());
}

TEST(PciAddress, PointsAtWhatIsWrong) {
  const std::vector<std::pair<std::string, std::size_t>> cases{
      {"", 0},
      {"18", 2},
      {"18:00", 5},
      {"18:00.", 6},
      {"18:00.8", 6},
      {"18:20.0", 3},
      {"1g:00.0", 1},
      {"000:18:00.0", 3},
      {"18:00.00", 7},
      {"0000:18:0.0", 9},
      {"000000000:18:00.0", 8},
      {"0000:18-00.0", 7},
  };
  for (const auto& [text, place] : cases) {
    const auto address = PciAddress::parse(text);
    ASSERT_FALSE(address.has_value()) << text;
    const std::string caret = "\n  " + std::string(place, ' ') + "^\nwrite it like 0000";
    EXPECT_NE(address.error().message.find(caret), std::string::npos) << address.error().message;
  }
}

RC_GTEST_PROP(PciAddressProperty, PrintedReadsBackAsTheSame, ()) {
  const auto address = PciAddress::create(
      *rc::gen::arbitrary<std::uint32_t>(), *rc::gen::inRange<std::uint32_t>(0, 0x100),
      *rc::gen::inRange<std::uint32_t>(0, 0x20), *rc::gen::inRange<std::uint32_t>(0, 8));
  RC_ASSERT(address.has_value());
  RC_ASSERT((PciAddress::parse(to_string(*address)) == address));
  RC_ASSERT((PciAddress::parse(to_sysfs_name(*address)) == address));
}

}  // namespace
}  // namespace divvy::model
