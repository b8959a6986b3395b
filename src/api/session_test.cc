#include "api/session.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

const std::string kToken =
    "divvy_3f9a1c0b5d7e2468_00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210";

net::HttpRequest request(net::HttpHeaders headers) {
  return {.method = "POST", .path = "/v1/jobs", .query = {}, .body = {}, .headers = headers};
}

// What a browser sends back of a "Set-Cookie".
std::string sent_back(const std::string& cookie) { return cookie.substr(0, cookie.find(';')); }

TEST(Session, CookieAndKeyTogetherAreTheToken) {
  for (const bool secure : {false, true}) {
    const Session session = make_session(kToken, secure);
    const std::string cookies = "theme=dark; " + sent_back(session.cookie) + "; other=1";
    EXPECT_EQ(session_token(request({{"cookie", cookies}, {"x-divvy-session", session.key}})),
              kToken);
    EXPECT_EQ(session_token(request(
                  {{"cookie", cookies},
                   {"sec-websocket-protocol", "divvy.channel.v1, divvy-session." + session.key}})),
              kToken);
  }
}

TEST(Session, NeitherHasTheSecretOfTheToken) {
  const Session session = make_session(kToken, true);
  const std::string secret = kToken.substr(kToken.rfind('_') + 1);
  EXPECT_EQ(session.key.size(), secret.size() / 2);
  EXPECT_EQ(session.cookie.find(session.key), std::string::npos);
  EXPECT_EQ(session.cookie.find(secret), std::string::npos);
}

TEST(Session, TheCookieIsForThisServerAndForNoScript) {
  const std::string inside = make_session(kToken, true).cookie;
  EXPECT_TRUE(inside.starts_with("__Host-divvy-session=divvy_"));
  for (const char* const attribute : {"; HttpOnly", "; SameSite=Strict", "; Secure", "; Path=/"}) {
    EXPECT_NE(inside.find(attribute), std::string::npos) << attribute;
  }
  EXPECT_EQ(inside.find("Domain"), std::string::npos);
  EXPECT_EQ(make_session(kToken, false).cookie.find("Secure"), std::string::npos);
  EXPECT_NE(ended_session(true).find("Max-Age=0"), std::string::npos);
}

TEST(Session, ACookieAloneIsNobody) {
  const Session session = make_session(kToken, false);
  const std::string cookie = sent_back(session.cookie);
  EXPECT_FALSE(session_token(request({{"cookie", cookie}})));
  EXPECT_FALSE(session_token(request({{"cookie", cookie}, {"x-divvy-session", "short"}})));
  EXPECT_FALSE(session_token(request({{"x-divvy-session", session.key}})));
  EXPECT_FALSE(session_token(request({{"cookie", "a=b"}, {"x-divvy-session", session.key}})));
  EXPECT_FALSE(session_token(request({})));
}

TEST(Session, APageOfAnotherOriginIsNobody) {
  const Session session = make_session(kToken, false);
  const auto from = [&](const std::string& origin) {
    return session_token(request({{"cookie", sent_back(session.cookie)},
                                  {"x-divvy-session", session.key},
                                  {"host", "gpu.example:8443"},
                                  {"origin", origin}}))
        .has_value();
  };
  EXPECT_TRUE(from("https://gpu.example:8443"));
  EXPECT_FALSE(from("https://gpu.example"));
  EXPECT_FALSE(from("https://gpu.example:9999"));
  EXPECT_FALSE(from("https://evil.example"));
  EXPECT_FALSE(from("null"));
}

}  // namespace
}  // namespace divvy::api
