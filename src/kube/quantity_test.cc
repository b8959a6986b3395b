#include "kube/quantity.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

TEST(Quantity, ReadsEveryWayOfWritingAWholeNumber) {
  EXPECT_EQ(parse_whole_quantity("0"), 0u);
  EXPECT_EQ(parse_whole_quantity("3"), 3u);
  EXPECT_EQ(parse_whole_quantity("+3"), 3u);
  EXPECT_EQ(parse_whole_quantity("3000m"), 3u);
  EXPECT_EQ(parse_whole_quantity("1.5k"), 1500u);
  EXPECT_EQ(parse_whole_quantity("1.5Ki"), 1536u);
  EXPECT_EQ(parse_whole_quantity("10Gi"), 10'737'418'240u);
  EXPECT_EQ(parse_whole_quantity("1e3"), 1000u);
  EXPECT_EQ(parse_whole_quantity("12E2"), 1200u);
  EXPECT_EQ(parse_whole_quantity("100e-2"), 1u);
  EXPECT_EQ(parse_whole_quantity("2E"), 2'000'000'000'000'000'000u);
  EXPECT_EQ(parse_whole_quantity("000000000000000000000007"), 7u);
}

TEST(Quantity, RefusesWhatIsNoWholeNumber) {
  for (const char* text :
       {"", ".", "-1", "0.5", "300m", "1.0001k", "1 Gi", "10GiB", "Gi", "1e", "1e99", "1e1.5",
        "16Ei", "20E", "12345678901234567890", "0x10", "1..2"}) {
    EXPECT_FALSE(parse_whole_quantity(text)) << text;
  }
}

TEST(Quantity, IsANumberInADocumentToo) {
  EXPECT_EQ(whole_quantity(boost::json::value(7)), 7u);
  EXPECT_EQ(whole_quantity(boost::json::value("7")), 7u);
  EXPECT_FALSE(whole_quantity(boost::json::value(-7)));
  EXPECT_FALSE(whole_quantity(boost::json::value(0.5)));
  EXPECT_FALSE(whole_quantity(boost::json::value(nullptr)));
}

}  // namespace
}  // namespace divvy::kube
