#include "shim/visibility.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace divvy::shim {
namespace {

// Three slices whose UUIDs begin with a0, a1 and b2.
class VisibilityTest : public ::testing::Test {
 protected:
  VisibilityTest() {
    page_->gpu_count = 3;
    page_->gpu[0].uuid[0] = 0xa0;
    page_->gpu[1].uuid[0] = 0xa1;
    page_->gpu[2].uuid[0] = 0xb2;
  }
  static std::string uuid(const std::string& start) {
    return "GPU-" + start + "000000-0000-0000-0000-000000000000";
  }
  std::string visible(const char* wanted) {
    char text[kVisibleBytes];
    visible_devices(*page_, wanted, text);
    return text;
  }
  std::unique_ptr<wire::ControlPage> page_ = std::make_unique<wire::ControlPage>();
};

TEST_F(VisibilityTest, WithoutAWishAllSlicesAreShown) {
  EXPECT_EQ(visible(nullptr), uuid("a0") + "," + uuid("a1") + "," + uuid("b2"));
}

TEST_F(VisibilityTest, NumbersCountSlices) {
  EXPECT_EQ(visible("2,0"), uuid("b2") + "," + uuid("a0"));
  EXPECT_EQ(visible(" 1 , 2"), uuid("a1") + "," + uuid("b2"));
}

TEST_F(VisibilityTest, TheListEndsAtTheFirstThatMeansNone) {
  EXPECT_EQ(visible("1,3,0"), uuid("a1"));
  EXPECT_EQ(visible("-1,0"), "");
  EXPECT_EQ(visible("0x1"), "");
  EXPECT_EQ(visible(""), "");
  EXPECT_EQ(visible("99999999999999999999"), "");
}

TEST_F(VisibilityTest, UuidsMayBeCutShortWhileTheyMeanOne) {
  EXPECT_EQ(visible("GPU-b"), uuid("b2"));
  EXPECT_EQ(visible("gpu-A1"), uuid("a1"));
  EXPECT_EQ(visible("GPU-a"), "") << "two begin so";
  EXPECT_EQ(visible("GPU-"), "");
  EXPECT_EQ(visible((uuid("b2") + ",GPU-a0").c_str()), uuid("b2") + "," + uuid("a0"));
  EXPECT_EQ(visible(uuid("c3").c_str()), "");
  EXPECT_EQ(visible((uuid("b2") + "00").c_str()), "");
  EXPECT_EQ(visible("MIG-b2000000"), "");
}

TEST_F(VisibilityTest, NamingOneTwiceShowsNoneAsInCuda) { EXPECT_EQ(visible("0,GPU-a0"), ""); }

TEST_F(VisibilityTest, WhatWasShownIsShownAgain) {
  const std::string once = visible("2,0");
  EXPECT_EQ(visible(once.c_str()), once);
}

TEST_F(VisibilityTest, AsManySlicesAsThereCanBeFit) {
  page_->gpu_count = wire::kMaxGpus;
  for (int i = 0; i < wire::kMaxGpus; ++i) page_->gpu[i].uuid[1] = static_cast<uint8_t>(i);
  EXPECT_EQ(visible(nullptr).size(), kVisibleBytes - 1);
}

}  // namespace
}  // namespace divvy::shim
