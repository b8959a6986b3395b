#include "base/base64.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

TEST(Base64, IsWrittenWithPadding) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foo"), "Zm9v");
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(encode_base64("\xff\xfe\xfd"), "//79");
}

TEST(Base64, IsReadAsItWasWritten) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
    bytes += static_cast<char>(i);
  }
  EXPECT_EQ(decode_base64("Zm9v\nYg"), "foob") << "without padding, over two lines";
}

TEST(Base64, WhatIsNoneIsRefused) {
  for (const char* const text : {"Zm9*", "Zg==Zg", "\xff"}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace divvy
