#include "oidc/url.h"

#include <gtest/gtest.h>

namespace divvy::oidc {
namespace {

TEST(ProviderUrl, IsTakenApart) {
  const auto url = Url::parse("https://Id.Example:8443/realms/lab?x=1");
  ASSERT_TRUE(url.has_value()) << url.error().message;
  EXPECT_TRUE(url->secure);
  EXPECT_EQ(url->address, (net::TcpAddress{"Id.Example", 8443}));
  EXPECT_EQ(url->path, "/realms/lab");
  EXPECT_EQ(url->query, "x=1");
  EXPECT_EQ(url->origin(), "https://id.example:8443");
  EXPECT_EQ(Url::parse("https://id.example")->path, "/");
  EXPECT_EQ(Url::parse("https://id.example")->address.port, 443);
  EXPECT_EQ(Url::parse("https://id.example:443/")->origin(), "https://id.example");
  EXPECT_EQ(Url::parse("http://[::1]:8080/a")->address, (net::TcpAddress{"::1", 8080}));
  EXPECT_EQ(Url::parse("https://[2001:db8::1]")->address, (net::TcpAddress{"2001:db8::1", 443}));
}

TEST(ProviderUrl, CrossesNoNetworkInTheClear) {
  for (const char* const own : {"http://127.0.0.1:8080", "http://localhost/x", "http://[::1]"}) {
    EXPECT_TRUE(Url::parse(own).has_value()) << own;
  }
  for (const char* const other :
       {"http://id.example", "http://127.evil.example", "http://10.0.0.1:80", "ftp://127.0.0.1"}) {
    EXPECT_FALSE(Url::parse(other).has_value()) << other;
  }
}

TEST(ProviderUrl, RefusesWhatIsNone) {
  for (const char* const text :
       {"", "https://", "https:///x", "https://user@id.example", "https://id.example/a b",
        "https://id.example/#x", "https://id.example/\"", "https://id.example:0", "https://:443",
        "https://id.example:99999", "//id.example", "https://id.example\\x", "https://a]b"}) {
    EXPECT_FALSE(Url::parse(text).has_value()) << text;
  }
  EXPECT_FALSE(Url::parse("https://id.example/" + std::string(Url::kLongest, 'a')).has_value());
}

TEST(ProviderUrl, FormsAreEscaped) {
  EXPECT_EQ(write_form({{"scope", "openid a"}, {"redirect_uri", "https://x/?a=b&c"}}),
            "scope=openid%20a&redirect_uri=https%3A%2F%2Fx%2F%3Fa%3Db%26c");
}

TEST(Base64url, IsWhatTheStandardSays) {
  EXPECT_EQ(encode_base64url(""), "");
  EXPECT_EQ(encode_base64url("f"), "Zg");
  EXPECT_EQ(encode_base64url("fo"), "Zm8");
  EXPECT_EQ(encode_base64url("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode_base64url("\xff\xfe\xfd"), "__79");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("\xff\xfe\xfd"), "//79");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    EXPECT_EQ(decode_base64url(encode_base64url(all)).value(), all);
  }
}

TEST(Base64url, HasOneWayToWriteEverything) {
  for (const char* const text : {"Z", "Zh", "Zm9", "Zg==", "Zg\n", "Z g", "//79", "Zm9vYmFyA"}) {
    EXPECT_FALSE(decode_base64url(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace divvy::oidc
