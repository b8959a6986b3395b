#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "oidc/id_token.h"
#include "oidc/testing.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;
using testing::TestKey;

constexpr std::int64_t kStart = 1'800'000'000;

const json::object& property_claims() {
  static const json::object kClaims{
      {"iss", "https://id.example"}, {"sub", "a7"},   {"aud", "divvy"},
      {"exp", kStart + 600},         {"iat", kStart}, {"nonce", "n"},
      {"preferred_username", "ada"}};
  return kClaims;
}

bool is_taken(const std::string& text) {
  static const auto kKeys =
      read_keys(json::serialize(testing::key_set({&TestKey::rsa(), &TestKey::p256()}))).value();
  const auto token = read_jwt(text);
  if (!token || !check_signature(*token, kKeys)) return false;
  return check_claims(*token, {.issuer = "https://id.example",
                               .client_id = "divvy",
                               .user_claim = "preferred_username",
                               .groups_claim = "groups",
                               .nonce = "n",
                               .not_issued_before = WallTime(std::chrono::seconds(kStart)),
                               .now = WallTime(std::chrono::seconds(kStart + 1))})
      .has_value();
}

RC_GTEST_PROP(IdTokenProperty, NoOtherSignIsTaken, ()) {
  static const std::string kRight = TestKey::p256().sign("ES256", property_claims());
  RC_ASSERT(is_taken(kRight));
  std::string changed = kRight;
  const auto at = *rc::gen::inRange<std::size_t>(0, changed.size());
  changed[at] = *rc::gen::arbitrary<char>();
  RC_ASSERT(changed == kRight || !is_taken(changed));
}

RC_GTEST_PROP(IdTokenProperty, WhatIsCutOrPutInBetweenIsNotTaken, ()) {
  static const std::string kRight = TestKey::p256().sign("ES256", property_claims());
  const auto at = *rc::gen::inRange<std::size_t>(0, kRight.size());
  RC_ASSERT(!is_taken(kRight.substr(0, at)));
  const auto piece = *rc::gen::nonEmpty(rc::gen::string<std::string>());
  RC_ASSERT(!is_taken(kRight.substr(0, at) + piece + kRight.substr(at)));
}

// However many claims are wrong at the same time.
RC_GTEST_PROP(IdTokenProperty, IsTakenExactlyWhereNothingIsWrong, ()) {
  json::object claims = property_claims();
  bool is_right = true;
  const auto spoil = [&](const char* claim, json::value value) {
    if (!*rc::gen::weightedElement<bool>({{5, false}, {1, true}})) return;
    claims[claim] = std::move(value);
    is_right = false;
  };
  spoil("iss", "https://id.example.evil");
  spoil("aud", json::array{"other", "another"});
  spoil("exp", kStart - *rc::gen::inRange(60, 1'000'000));
  spoil("iat", kStart - *rc::gen::inRange(61, 1'000'000));
  spoil("nbf", kStart + *rc::gen::inRange(62, 1'000'000));
  spoil("nonce", nullptr);
  spoil("sub", "");
  RC_ASSERT(is_taken(TestKey::p256().sign("ES256", claims)) == is_right);
}

}  // namespace
}  // namespace divvy::oidc
