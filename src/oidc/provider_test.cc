#include "oidc/provider.h"

#include <gtest/gtest.h>

#include "oidc/testing.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;
using testing::FakeProvider;
using testing::TestKey;

constexpr const char* kDescribe = "/.well-known/openid-configuration";

class ProviderTest : public ::testing::Test {
 protected:
  void SetUp() override { connect(); }

  void connect(std::string secret = "") {
    ProviderOptions options;
    options.issuer = fake_.issuer;
    options.client_id = "divvy";
    options.client_secret = std::move(secret);
    options.scopes = {"profile", "openid"};
    auto made = Provider::create(std::move(options), clock_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    provider_ = *std::move(made);
  }
  [[nodiscard]] std::string token(const TestKey& key) const {
    const std::int64_t now =
        std::chrono::floor<std::chrono::seconds>(clock_.wall_now()).time_since_epoch().count();
    return key.sign(&key == &TestKey::p256() ? "ES256" : "RS256", {{"iss", fake_.issuer},
                                                                   {"sub", "a7"},
                                                                   {"aud", "divvy"},
                                                                   {"exp", now + 600},
                                                                   {"iat", now},
                                                                   {"preferred_username", "ada"}});
  }
  [[nodiscard]] Result<Claims> verify(const TestKey& key) const {
    return provider_->verify(token(key), {.nonce = std::nullopt, .began = clock_.wall_now()});
  }

  ManualClock clock_;
  FakeProvider fake_;
  std::unique_ptr<Provider> provider_;
};

TEST_F(ProviderTest, IsAskedForItsDescriptionOnceAnHour) {
  const Provider::Authorization begun{
      .redirect = "https://gpu.example/cb", .state = "s", .nonce = "n", .verifier = "v"};
  EXPECT_EQ(fake_.asked(kDescribe), 0) << "a provider that is down keeps no daemon from starting";
  const auto address = provider_->authorization_address(begun);
  ASSERT_TRUE(address.has_value()) << address.error().message;
  EXPECT_EQ(*address, fake_.issuer +
                          "/auth?response_type=code&client_id=divvy&redirect_uri=https%3A%2F%2F"
                          "gpu.example%2Fcb&scope=openid%20profile&state=s&nonce=n&code_challenge="
                          "TJRIXgwhrmxBzh3-e2v6zupato5AokdvUCCOUm9QYIA&code_challenge_method=S256");
  EXPECT_TRUE(provider_->authorization_address(begun).has_value());
  EXPECT_EQ(fake_.asked(kDescribe), 1);
  clock_.advance(std::chrono::hours(1));
  EXPECT_TRUE(provider_->authorization_address(begun).has_value());
  EXPECT_EQ(fake_.asked(kDescribe), 2);
}

TEST_F(ProviderTest, IsAskedForNewKeysOnceAMinuteAtMost) {
  EXPECT_TRUE(verify(TestKey::rsa()).has_value());
  EXPECT_EQ(fake_.asked("/jwks"), 1);
  fake_.keys = testing::key_set({&TestKey::rsa(), &TestKey::p256()});
  EXPECT_FALSE(verify(TestKey::p256()).has_value());
  EXPECT_EQ(fake_.asked("/jwks"), 1) << "whoever makes up names of keys has nobody asked";
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(verify(TestKey::p256()).has_value()) << "the provider has a new key";
  EXPECT_TRUE(verify(TestKey::rsa()).has_value());
  EXPECT_EQ(fake_.asked("/jwks"), 2);
}

TEST_F(ProviderTest, ANewKeyWithoutANameIsAskedForLikeAnyOther) {
  const auto verify_unnamed = [this](const TestKey& key) {
    const std::int64_t now =
        std::chrono::floor<std::chrono::seconds>(clock_.wall_now()).time_since_epoch().count();
    const std::string signed_by =
        key.sign(json::object{{"alg", "RS256"}}, {{"iss", fake_.issuer},
                                                  {"sub", "a7"},
                                                  {"aud", "divvy"},
                                                  {"exp", now + 600},
                                                  {"iat", now},
                                                  {"preferred_username", "ada"}});
    return provider_->verify(signed_by, {.nonce = std::nullopt, .began = clock_.wall_now()});
  };
  EXPECT_TRUE(verify_unnamed(TestKey::rsa()).has_value());
  fake_.keys = testing::key_set({&TestKey::other_rsa()});
  EXPECT_FALSE(verify_unnamed(TestKey::other_rsa()).has_value());
  EXPECT_EQ(fake_.asked("/jwks"), 1) << "not more than once a minute";
  clock_.advance(std::chrono::minutes(1));
  EXPECT_TRUE(verify_unnamed(TestKey::other_rsa()).has_value());
  EXPECT_FALSE(verify_unnamed(TestKey::rsa()).has_value());
  EXPECT_EQ(fake_.asked("/jwks"), 2);
}

TEST_F(ProviderTest, AKeyThatItTookBackIsBelievedForNoMoreThanAnHour) {
  EXPECT_TRUE(verify(TestKey::rsa()).has_value());
  fake_.keys = testing::key_set({&TestKey::p256()});
  clock_.advance(std::chrono::hours(1));
  EXPECT_FALSE(verify(TestKey::rsa()).has_value());
}

TEST_F(ProviderTest, ACodeIsRedeemedWithTheVerifierAndTheSecret) {
  FakeProvider::Form form;
  fake_.token = [&](const FakeProvider::Form& sent) {
    form = sent;
    return FakeProvider::reply({{"id_token", "abc"}, {"access_token", "x"}});
  };
  EXPECT_EQ(provider_->redeem_code("c d", "https://gpu.example/cb", "v").value(), "abc");
  EXPECT_EQ(form, (FakeProvider::Form{{"grant_type", "authorization_code"},
                                      {"code", "c d"},
                                      {"redirect_uri", "https://gpu.example/cb"},
                                      {"code_verifier", "v"},
                                      {"client_id", "divvy"}}));
  EXPECT_EQ(fake_.last().header("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ("http://" + std::string(fake_.last().header("host")), fake_.issuer);

  connect("se cret");
  EXPECT_TRUE(provider_->redeem_code("c", "r", "v").has_value());
  EXPECT_EQ(fake_.last().header("authorization"), "Basic ZGl2dnk6c2UlMjBjcmV0");
  EXPECT_FALSE(form.contains("client_secret"));

  fake_.document["token_endpoint_auth_methods_supported"] = json::array{"client_secret_post"};
  connect("se cret");
  EXPECT_TRUE(provider_->redeem_code("c", "r", "v").has_value());
  EXPECT_EQ(fake_.last().header("authorization"), "");
  EXPECT_EQ(form["client_secret"], "se cret");
}

TEST_F(ProviderTest, ADeviceWaitsUntilThePersonIsDone) {
  const auto begun = provider_->begin_device();
  ASSERT_TRUE(begun.has_value()) << begun.error().message;
  EXPECT_EQ(begun->user_code, "ABCD-EFGH");
  const auto answer = [&](const json::object& document, int status) {
    fake_.token = [=](const FakeProvider::Form&) { return FakeProvider::reply(document, status); };
    return provider_->ask_device(begun->device_code);
  };
  EXPECT_FALSE(answer({{"error", "authorization_pending"}}, 400)->id_token.has_value());
  EXPECT_TRUE(answer({{"error", "slow_down"}}, 400)->slow_down);
  EXPECT_EQ(answer({{"error", "access_denied"}}, 400).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(answer({{"error", "expired_token"}}, 400).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(answer({{"error", "server_error"}}, 500).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(answer({{"id_token", "abc"}}, 200)->id_token, "abc");
  fake_.document.erase("device_authorization_endpoint");
  connect();
  EXPECT_EQ(provider_->begin_device().error().code, ErrorCode::kUnsupported);
}

TEST_F(ProviderTest, AnAuthorizationOfAnotherProviderIsRefused) {
  EXPECT_TRUE(provider_->check_issuer(std::nullopt));
  EXPECT_TRUE(provider_->check_issuer(fake_.issuer));
  EXPECT_FALSE(provider_->check_issuer("https://evil.example"));
  fake_.document["authorization_response_iss_parameter_supported"] = true;
  connect();
  EXPECT_FALSE(provider_->check_issuer(std::nullopt));
}

TEST_F(ProviderTest, AnAnswerThatIsTooLargeIsGivenUp) {
  fake_.override = [](const net::HttpRequest&) {
    return net::HttpResponse{.body = std::string(kLargestDocument + 1, ' ')};
  };
  EXPECT_EQ(provider_->begin_device().error().code, ErrorCode::kUnavailable);
}

TEST_F(ProviderTest, ADescriptionOfAnotherIssuerIsRefused) {
  fake_.document["issuer"] = "https://id.example";
  EXPECT_FALSE(provider_->begin_device().has_value());
}

TEST_F(ProviderTest, ARedirectIsNotFollowed) {
  fake_.override = [](const net::HttpRequest&) {
    return net::HttpResponse{
        .status = 302, .body = "", .headers = {{"location", "http://127.0.0.1:1/"}}};
  };
  EXPECT_NE(provider_->begin_device().error().message.find("302"), std::string::npos);
}

TEST_F(ProviderTest, OneThatCannotBeReachedOrCannotProveWhoItIsIsNotThereNow) {
  for (const std::string& issuer :
       {std::string("http://127.0.0.1:1"), "https" + fake_.issuer.substr(4)}) {
    ProviderOptions options;
    options.issuer = issuer;
    options.client_id = "divvy";
    const auto absent = Provider::create(std::move(options), clock_).value();
    EXPECT_EQ(absent->begin_device().error().code, ErrorCode::kUnavailable) << issuer;
  }
}

TEST_F(ProviderTest, AreAskedBySoManyAtOnceAndNoMore) {
  ProviderOptions options;
  options.issuer = fake_.issuer;
  options.client_id = "divvy";
  options.most_at_once = 1;
  const auto narrow = Provider::create(std::move(options), clock_).value();
  Result<DeviceAnswer> second = err(ErrorCode::kInternal, "was not asked");
  // While the provider answers the one, another one comes.
  fake_.override = [&](const net::HttpRequest&) {
    second = narrow->begin_device();
    return FakeProvider::reply({}, 500);
  };
  EXPECT_FALSE(narrow->begin_device().has_value());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find("slow to answer others"), std::string::npos);
}

TEST_F(ProviderTest, OptionsThatCannotWorkAreRefused) {
  const auto is_taken = [this](std::string issuer, std::string client) {
    ProviderOptions options;
    options.issuer = std::move(issuer);
    options.client_id = std::move(client);
    return Provider::create(std::move(options), clock_).has_value();
  };
  EXPECT_TRUE(is_taken("https://id.example/lab", "divvy"));
  EXPECT_FALSE(is_taken("http://id.example", "divvy"));
  EXPECT_FALSE(is_taken("https://id.example/?x", "divvy"));
  EXPECT_FALSE(is_taken("https://id.example", ""));
}

}  // namespace
}  // namespace divvy::oidc
