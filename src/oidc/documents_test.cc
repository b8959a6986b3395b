#include "oidc/documents.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "oidc/testing.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;

constexpr std::string_view kLab = "https://id.example/lab";

json::object description() {
  return {{"issuer", kLab},
          {"authorization_endpoint", "https://id.example/lab/auth"},
          {"token_endpoint", "https://tokens.example/token"},
          {"jwks_uri", "https://id.example/lab/keys"},
          {"code_challenge_methods_supported", json::array{"plain", "S256"}},
          {"claims_supported", json::array{"sub"}}};
}

Result<ProviderDocument> read_description(const json::object& document) {
  return read_provider(json::serialize(document), kLab);
}

TEST(ProviderDocuments, TheDescriptionSaysWhereEverythingIs) {
  json::object document = description();
  auto read = read_description(document);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->authorization_text, "https://id.example/lab/auth");
  EXPECT_EQ(read->token.host, "tokens.example");
  EXPECT_FALSE(read->device_authorization.has_value());
  EXPECT_FALSE(read->names_itself);
  EXPECT_TRUE(read->takes_basic);
  document["device_authorization_endpoint"] = "https://id.example/lab/device";
  document["authorization_response_iss_parameter_supported"] = true;
  document["token_endpoint_auth_methods_supported"] = json::array{"client_secret_post"};
  read = read_description(document);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->device_authorization->path, "/lab/device");
  EXPECT_TRUE(read->names_itself);
  EXPECT_FALSE(read->takes_basic);
}

TEST(ProviderDocuments, ADescriptionThatIsWrongIsRefused) {
  const json::array table = {{"issuer", "https://id.example/lab/"},
                             {"issuer", "https://evil.example"},
                             {"issuer", nullptr},
                             {"authorization_endpoint", nullptr},
                             {"authorization_endpoint", "http://id.example/auth"},
                             {"authorization_endpoint", "javascript:alert(1)"},
                             {"token_endpoint", "http://id.example/token"},
                             {"token_endpoint", nullptr},
                             {"jwks_uri", 7},
                             {"device_authorization_endpoint", "file:///etc/passwd"},
                             {"code_challenge_methods_supported", json::array{"plain"}}};
  for (const json::value& row : table) {
    const std::string field = row.at(0).as_string().c_str();
    json::object document = description();
    document[field] = row.at(1);
    const auto refused = read_description(document);
    ASSERT_FALSE(refused.has_value()) << field;
    EXPECT_NE(refused.error().message.find(field), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(read_provider("[]", kLab).has_value());
  EXPECT_FALSE(read_provider(std::string(kLargestDocument + 1, ' '), kLab).has_value());
}

TEST(ProviderDocuments, OfItsKeysThoseForSignaturesAreUsed) {
  json::object set = testing::key_set({&testing::TestKey::rsa(), &testing::TestKey::p256()});
  json::object encrypting = testing::TestKey::other_rsa().jwk();
  encrypting["use"] = "enc";
  json::object weak = testing::TestKey::other_rsa().jwk();
  weak["n"] = encode_base64url(std::string(128, '\x7f'));
  json::object huge = testing::TestKey::other_rsa().jwk();
  huge["n"] = encode_base64url(std::string(4096, '\x7f'));
  json::object cut = testing::TestKey::p256().jwk();
  cut["x"] = "AAAA";
  json::array& keys = set["keys"].as_array();
  for (const json::object& key : {encrypting, weak, huge, cut}) keys.push_back(key);
  keys.push_back(json::object{{"kty", "oct"}, {"k", "c2VjcmV0"}});
  keys.push_back(json::object{{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AAAA"}});
  keys.push_back("no key");
  const auto read = read_keys(json::serialize(set));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->at(0).id, "k-rsa");
  EXPECT_EQ(read->at(1).kind, Jwk::Kind::kP256);
  EXPECT_FALSE(read_keys("{}").has_value());
  EXPECT_FALSE(read_keys(R"({"keys":{}})").has_value());
}

TEST(ProviderDocuments, ThereAreNotTooManyKeys) {
  json::array keys;
  for (int i = 0; i < 65; ++i) keys.push_back(testing::TestKey::p256().jwk());
  EXPECT_FALSE(read_keys(json::serialize(json::object{{"keys", keys}})).has_value());
}

TEST(ProviderDocuments, ADeviceIsTypedByAPersonAtAnAddress) {
  json::object right{{"device_code", "d"},
                     {"user_code", "ABCD-EFGH"},
                     {"verification_uri", "https://id.example/device"},
                     {"verification_uri_complete", "https://id.example/device?c=ABCD-EFGH"},
                     {"expires_in", 600}};
  auto read = read_device_answer(json::serialize(right));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->interval, std::chrono::seconds(5));
  EXPECT_EQ(read->expires_in, std::chrono::minutes(10));
  right["expires_in"] = 1'000'000;
  right["interval"] = 0;
  read = read_device_answer(json::serialize(right));
  EXPECT_EQ(read->expires_in, std::chrono::hours(1));
  EXPECT_EQ(read->interval, std::chrono::seconds(1));
  const json::array table = {{"device_code", ""},
                             {"user_code", "\x1b[31mred"},
                             {"user_code", ""},
                             {"user_code", std::string(41, 'A')},
                             {"verification_uri", "x"},
                             {"verification_uri_complete", "http://evil.example"},
                             {"expires_in", "tomorrow"},
                             {"expires_in", nullptr},
                             {"verification_uri", nullptr}};
  for (const json::value& row : table) {
    json::object wrong = right;
    wrong[row.at(0).as_string()] = row.at(1);
    EXPECT_FALSE(read_device_answer(json::serialize(wrong)).has_value()) << json::serialize(row);
  }
}

TEST(ProviderDocuments, ARefusalIsAWordThatALogCanTake) {
  EXPECT_EQ(read_refusal(R"({"error":"invalid_grant","error_description":"x"})"), "invalid_grant");
  for (const char* const odd :
       {"", "{}", "[]", R"({"error":"a b"})", R"({"error":7})", R"({"error":"\u001b[31m"})"}) {
    EXPECT_EQ(read_refusal(odd), "") << odd;
  }
}

}  // namespace
}  // namespace divvy::oidc
