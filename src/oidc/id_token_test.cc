#include "oidc/id_token.h"

#include <gtest/gtest.h>

#include "oidc/testing.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;
using testing::TestKey;

constexpr std::string_view kIssuer = "https://id.example/realms/lab";
constexpr std::string_view kClient = "divvy";
constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};
constexpr std::int64_t kSecond = 1'800'000'000;

std::vector<Jwk> all_keys() {
  const json::object set =
      testing::key_set({&TestKey::rsa(), &TestKey::other_rsa(), &TestKey::p256()});
  return read_keys(json::serialize(set)).value();
}

json::object right_claims() {
  return {{"iss", kIssuer},
          {"sub", "a7"},
          {"aud", kClient},
          {"exp", kSecond + 3600},
          {"iat", kSecond - 5},
          {"nonce", "n-1"},
          {"preferred_username", "ada"},
          {"groups", json::array{"gpu-users", "ops"}}};
}

Expected expected() {
  return {.issuer = kIssuer,
          .client_id = kClient,
          .user_claim = "preferred_username",
          .groups_claim = "groups",
          .nonce = "n-1",
          .not_issued_before = kNow - std::chrono::seconds(30),
          .now = kNow};
}

Result<Claims> verify(const std::string& text, const Expected& wanted = expected()) {
  DIVVY_TRY(token, read_jwt(text));
  DIVVY_RETURN_IF_ERROR(check_signature(token, all_keys()));
  return check_claims(token, wanted);
}
Result<Claims> verify_claims(const json::object& claims, const Expected& wanted = expected()) {
  return verify(TestKey::rsa().sign("RS256", claims), wanted);
}

bool names(const std::string& message, std::string_view reason) {
  return message.find(reason) != std::string::npos;
}

TEST(IdToken, IsTakenFromTheProviderInEveryAlgorithm) {
  for (const auto& [key, algorithm] :
       {std::pair(&TestKey::rsa(), "RS256"), std::pair(&TestKey::rsa(), "PS256"),
        std::pair(&TestKey::p256(), "ES256")}) {
    const auto claims = verify(key->sign(algorithm, right_claims()));
    ASSERT_TRUE(claims.has_value()) << algorithm << ": " << claims.error().message;
    EXPECT_EQ(claims->subject, "a7");
    EXPECT_EQ(claims->user, "ada");
    EXPECT_EQ(claims->groups, (std::vector<std::string>{"gpu-users", "ops"}));
    EXPECT_EQ(claims->expires, kNow + std::chrono::hours(1));
  }
}

TEST(IdToken, IsRefusedForEachClaimThatIsWrong) {
  // A claim, a value of it, and what the refusal says.
  const json::array table = {
      {"iss", "https://evil.example", "(iss)"},
      {"iss", "https://id.example/realms/lab/", "(iss)"},
      {"iss", nullptr, "iss: it is missing"},
      {"aud", "another", "(aud)"},
      {"aud", json::array{"another"}, "(aud)"},
      {"aud", json::array{}, "aud:"},
      {"aud", json::array{kClient, "another"}, "(azp)"},
      {"aud", 7, "aud:"},
      {"aud", nullptr, "aud: it is missing"},
      {"azp", "another", "(azp)"},
      {"exp", kSecond - 61, "(exp)"},
      {"exp", nullptr, "exp: it is missing"},
      {"exp", "tomorrow", "exp:"},
      {"exp", -5, "exp:"},
      {"exp", 1e300, "exp:"},
      {"iat", kSecond + 62, "(iat)"},
      {"iat", kSecond - 95, "before this sign-in began (iat)"},
      {"iat", nullptr, "iat: it is missing"},
      {"nbf", kSecond + 62, "(nbf)"},
      {"nonce", "n-2", "(nonce)"},
      {"nonce", nullptr, "(nonce)"},
      {"nonce", 7, "nonce:"},
      {"sub", "", "(sub)"},
      {"sub", std::string(256, 'a'), "(sub)"},
      {"sub", std::string("a\0b", 3), "(sub)"},
      {"sub", nullptr, "sub: it is missing"},
      {"preferred_username", std::string(256, 'a'), "too many letters"},
      {"preferred_username", 7, "preferred_username:"},
      {"groups", "ops", "groups:"},
      {"groups", json::array{7}, "groups[0]:"},
  };
  for (const json::value& row : table) {
    const std::string shown = json::serialize(row);
    json::object claims = right_claims();
    claims[row.at(0).as_string()] = row.at(1);
    const auto refused = verify_claims(claims);
    ASSERT_FALSE(refused.has_value()) << shown;
    EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied) << shown;
    EXPECT_TRUE(names(refused.error().message, row.at(2).as_string().c_str()))
        << shown << ": " << refused.error().message;
  }
}

TEST(IdToken, ClocksMayBeAMinuteApart) {
  json::object claims = right_claims();
  claims["exp"] = kSecond - 59;
  claims["iat"] = kSecond + 59;
  claims["nbf"] = kSecond + 59;
  EXPECT_TRUE(verify_claims(claims).has_value());
  claims["exp"] = kSecond + 0.75;
  EXPECT_TRUE(verify_claims(claims).has_value()) << "times may have fractions";
}

TEST(IdToken, OfSeveralClientsIsTakenWhereItWasMadeForThisOne) {
  json::object claims = right_claims();
  claims["aud"] = json::array{"another", kClient};
  claims["azp"] = kClient;
  EXPECT_TRUE(verify_claims(claims).has_value());
}

TEST(IdToken, AnAddressOfMailSaysWhetherItIsVerified) {
  json::object claims = right_claims();
  claims["email"] = "ada@example.com";
  Expected wanted = expected();
  wanted.user_claim = "email";
  EXPECT_FALSE(verify_claims(claims, wanted)->user_is_verified);
  claims["email_verified"] = true;
  EXPECT_TRUE(verify_claims(claims, wanted)->user_is_verified);
  EXPECT_EQ(verify_claims(claims, wanted)->user, "ada@example.com");
}

TEST(IdToken, WithoutAKeyOfTheProviderIsRefused) {
  const json::object claims = right_claims();
  const auto only = [](const TestKey& key) {
    return read_keys(json::serialize(testing::key_set({&key}))).value();
  };
  const Jwt token = read_jwt(TestKey::other_rsa().sign("RS256", claims)).value();
  EXPECT_FALSE(has_key_for(token, only(TestKey::rsa())));
  EXPECT_EQ(check_signature(token, only(TestKey::rsa())).error().code,
            ErrorCode::kPermissionDenied);
  // A key of another name has signed it, and one that claims to be the provider's.
  const json::object stolen{{"alg", "RS256"}, {"kid", TestKey::rsa().id()}};
  EXPECT_FALSE(verify(TestKey::other_rsa().sign(stolen, claims)).has_value());
  EXPECT_TRUE(verify(TestKey::rsa().sign(stolen, claims)).has_value());
  // One that names no key is tried with all of the right kind.
  EXPECT_TRUE(
      verify(TestKey::other_rsa().sign(json::object{{"alg", "RS256"}}, claims)).has_value());
}

TEST(IdToken, AlgorithmsThatTheProvidersKeysAreNotForAreRefused) {
  const json::object claims = right_claims();
  for (const char* const algorithm :
       {"none", "NONE", "HS256", "HS512", "RS1", "ES384", "", "EdDSA"}) {
    const auto refused = read_jwt(TestKey::rsa().sign(algorithm, claims));
    ASSERT_FALSE(refused.has_value()) << algorithm;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported) << algorithm;
  }
  const std::string unsigned_text =
      encode_base64url(R"({"alg":"none"})") + "." + encode_base64url(json::serialize(claims)) + ".";
  EXPECT_EQ(read_jwt(unsigned_text).error().code, ErrorCode::kUnsupported);
  // The kind of the key decides, not what the token says of itself.
  EXPECT_FALSE(verify(TestKey::p256().sign(json::object{{"alg", "RS256"}}, claims)).has_value());
  EXPECT_FALSE(verify(TestKey::rsa().sign(json::object{{"alg", "ES256"}}, claims)).has_value());
  EXPECT_FALSE(verify(TestKey::rsa().sign(json::object{{"alg", "PS256"}, {"kid", "k-ec"}}, claims))
                   .has_value());
  // A key that is for one algorithm is not used for another.
  json::object set = testing::key_set({&TestKey::rsa()});
  set["keys"].as_array()[0].as_object()["alg"] = "PS256";
  const Jwt token = read_jwt(TestKey::rsa().sign("RS256", claims)).value();
  EXPECT_FALSE(check_signature(token, read_keys(json::serialize(set)).value()));
}

TEST(IdToken, WhatIsNoTokenIsRefused) {
  const std::string right = TestKey::rsa().sign("RS256", right_claims());
  const auto with_header = [](const json::object& header) {
    return TestKey::rsa().sign(header, right_claims());
  };
  for (const std::string& text :
       {std::string(), std::string("a.b"), right + ".x", "." + right, right.substr(1), right + "=",
        std::string(kLargestToken + 1, 'a'), std::string("e30.e30.e30"),
        with_header({{"alg", "RS256"}, {"crit", json::array{"b64"}}}),
        with_header({{"alg", "RS256"}, {"typ", "at+jwt"}}), with_header({{"alg", 7}}),
        with_header({{"kid", "k-rsa"}})}) {
    const auto refused = verify(text);
    ASSERT_FALSE(refused.has_value()) << text.substr(0, 100);
    EXPECT_TRUE(refused.error().message.starts_with("the ID token is refused: ")) << text;
  }
}

TEST(IdToken, NoMessageHasAnythingOfTheToken) {
  json::object claims = right_claims();
  claims["nonce"] = "secret-nonce";
  const auto refused = verify_claims(claims);
  EXPECT_FALSE(names(refused.error().message, "secret-nonce"));
}

}  // namespace
}  // namespace divvy::oidc
