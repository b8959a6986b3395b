#include "store/token_secret.h"

#include <gtest/gtest.h>

#include <set>

namespace divvy::store {
namespace {

TEST(TokenSecret, IsAnotherOneEveryTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const auto token = make_token_text();
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ(token->secret.size(), 64U);
    EXPECT_TRUE(seen.insert(token->secret).second);
    EXPECT_TRUE(seen.insert(token->id).second);
  }
}

TEST(TokenSecret, ReadsWhatItWrote) {
  const TokenText token = make_token_text().value();
  const auto again = split_token(join_token(token));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->id, token.id);
  EXPECT_EQ(again->secret, token.secret);
}

TEST(TokenSecret, RefusesWhatWasNeverAToken) {
  const std::string secret(64, 'a');
  for (const std::string& text : std::vector<std::string>{
           "", "divvy_", "divvy__", "divvy_0123456789abcdef_",
           "divvy_0123456789abcdef_" + secret + "0", "DIVVY_0123456789abcdef_" + secret,
           "divvy_0123456789abcdeg_" + secret, "divvy_0123456789abcdef-" + secret,
           std::string("divvy_0123456789abcde\0_", 23) + secret}) {
    EXPECT_FALSE(split_token(text).has_value()) << text;
  }
}

TEST(TokenSecret, HashIsSha256) {
  // FIPS 180-2, appendix B.1
  EXPECT_EQ(hash_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenSecret, ComparesWholeTexts) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
}

}  // namespace
}  // namespace divvy::store
