// Sign-ins from the first request to a token that works, with a provider in this process.
#include "api/sign_in.h"

#include <unistd.h>

#include <regex>

#include "api/openapi.h"
#include "api/routes.h"
#include "api/session.h"
#include "api/testing.h"
#include "oidc/testing.h"
#include "store/audit_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::Role;
using oidc::testing::FakeProvider;
using oidc::testing::TestKey;

constexpr const char* kConsole = "https://gpu.example:8443";

// What somebody's browser knows of a sign-in that it began.
struct Begun {
  std::string state;
  std::string nonce;
  std::string cookie;
};

class SignInTest : public testing::ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    set_up({});
    // What the provider gives for any code: a token for whoever `claims_` says.
    fake_.token = [this](const FakeProvider::Form& form) {
      form_ = form;
      return FakeProvider::reply({{"id_token", id_token_ ? *id_token_ : sign(claims_)}});
    };
  }

  void set_up(AdmissionRules rules) {
    oidc::ProviderOptions provider;
    provider.issuer = fake_.issuer;
    provider.client_id = "divvy";
    rules.is_machine_user = [](const std::string& name) { return name == "mallory"; };
    sign_in_ = SignIn::create(oidc::Provider::create(std::move(provider), clock_).value(),
                              {.provider_name = "The lab",
                               .console_url = kConsole,
                               .rules = std::move(rules),
                               .token_time = std::chrono::hours(24)},
                              *database_, clock_)
                   .value();
    serve(routes(), sign_in_.get());
  }

  [[nodiscard]] std::int64_t seconds() const {
    return std::chrono::floor<std::chrono::seconds>(clock_.wall_now()).time_since_epoch().count();
  }
  // With what every token of this provider has, where the claims do not say otherwise.
  [[nodiscard]] std::string sign(json::object claims) const {
    // By value: one of the claims would move as they grow.
    const auto add = [&claims](const char* name, json::value value) {
      if (!claims.contains(name)) claims[name] = std::move(value);
    };
    add("iss", json::value(fake_.issuer));
    add("aud", json::value("divvy"));
    add("exp", json::value(seconds() + 600));
    add("iat", json::value(seconds()));
    add("preferred_username", claims.at("sub"));
    if (!nonce_.empty()) add("nonce", json::value(nonce_));
    return TestKey::rsa().sign("RS256", claims);
  }

  [[nodiscard]] net::HttpResponse post(const std::string& path, const std::string& body = {},
                                       net::HttpHeaders headers = {}) const {
    return ask({.method = "POST", .path = path, .query = {}, .body = body, .headers = headers}, "");
  }
  static std::string query_value(const std::string& address, const std::string& name) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(address, found, std::regex("[?&]" + name + "=([^&]*)")))
        << address;
    return found[1];
  }

  // From the page of the console.
  Begun begin() {
    const auto answer =
        post("/v1/sign-in/browser", {}, {{"origin", kConsole}, {"host", "gpu.example:8443"}});
    EXPECT_EQ(answer.status, 201) << answer.body;
    const std::string address = json::parse(answer.body).at("address").as_string().c_str();
    const std::string cookie = answer.headers.at("set-cookie");
    nonce_ = query_value(address, "nonce");
    return {query_value(address, "state"), nonce_, cookie.substr(0, cookie.find(';'))};
  }
  [[nodiscard]] net::HttpResponse come_back(const std::string& query,
                                            const std::string& cookie) const {
    return ask({.method = "GET",
                .path = "/v1/sign-in/callback",
                .query = query,
                .body = {},
                .headers = {{"cookie", cookie}}},
               "");
  }
  // Where the browser is led when somebody has signed in.
  std::string where_it_leads(const json::object& claims) {
    claims_ = claims;
    const Begun begun = begin();
    const auto answer = come_back("code=c&state=" + begun.state, begun.cookie);
    EXPECT_EQ(answer.status, 303);
    return answer.headers.at("location");
  }
  // "" or why not.
  std::string reason(const json::object& claims) {
    const std::string leads = where_it_leads(claims);
    return leads.starts_with("/#key=") ? "" : leads.substr(leads.find('=') + 1);
  }
  [[nodiscard]] std::vector<store::AuditRow> audit() const {
    // Behind what was put off.
    EXPECT_TRUE(database_->commit([](store::Connection&) { return Status{}; }));
    return database_
        ->read([](store::Connection& connection) { return store::AuditTable(connection).list({}); })
        .value();
  }
  [[nodiscard]] std::optional<model::Person> person(const std::string& name) const {
    return database_
        ->read([&](store::Connection& connection) {
          return store::PeopleTable(connection).find(name);
        })
        .value();
  }

  FakeProvider fake_;
  FakeProvider::Form form_;
  json::object claims_;
  std::optional<std::string> id_token_;  // Instead of a right one
  std::string nonce_;
  std::unique_ptr<SignIn> sign_in_;
};

TEST_F(SignInTest, ABrowserComesBackWithASession) {
  add("ada", Role::kUser);
  claims_ = {{"sub", "ada"}};
  const Begun begun = begin();
  EXPECT_TRUE(begun.cookie.starts_with("divvy-sign-in="));
  const auto answer =
      come_back("code=the-code&state=" + begun.state + "&session_state=x", begun.cookie);
  EXPECT_EQ(answer.status, 303);
  EXPECT_EQ(answer.headers.at("cache-control"), "no-store");
  const std::string leads = answer.headers.at("location");
  ASSERT_TRUE(leads.starts_with("/#key=")) << leads;
  EXPECT_EQ(form_.at("code"), "the-code");
  EXPECT_EQ(form_.at("redirect_uri"), std::string(kConsole) + "/v1/sign-in/callback");
  EXPECT_FALSE(form_.at("code_verifier").empty());

  const std::string cookie = answer.headers.at("set-cookie");
  net::HttpRequest request{.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}};
  request.headers = {{"cookie", cookie.substr(0, cookie.find(';'))},
                     {"x-divvy-session", leads.substr(6)}};
  const auto who = ask(request, "");
  ASSERT_EQ(who.status, 200) << who.body;
  EXPECT_EQ(json::parse(who.body).at("name"), "ada");
  // Signed out, the token is of no use to anybody.
  request.method = "DELETE";
  request.path = "/v1/session";
  EXPECT_EQ(ask(request, "").status, 200);
  request.method = "GET";
  request.path = "/v1/whoami";
  EXPECT_EQ(ask(request, "").status, 401);
}

TEST_F(SignInTest, ASessionEndsAfterTwelveHours) {
  add("ada", Role::kUser);
  clock_.advance(std::chrono::seconds(1));  // Behind her other token in the list
  EXPECT_EQ(reason({{"sub", "ada"}}), "");
  const auto tokens = database_->read(
      [](store::Connection& connection) { return store::PeopleTable(connection).tokens("ada"); });
  EXPECT_EQ(tokens->back().label, kBrowserLabel);
  EXPECT_EQ(tokens->back().expires, clock_.wall_now() + std::chrono::hours(12));
}

TEST_F(SignInTest, ATokenOfSomebodyWhoMadeItThemselvesOutlivesTheirSession) {
  const std::string token = add("ada", Role::kUser);
  const Session session = make_session(token, false);
  net::HttpRequest request{.method = "DELETE", .path = "/v1/session", .query = {}, .body = {}};
  request.headers = {{"cookie", session.cookie.substr(0, session.cookie.find(';'))},
                     {"x-divvy-session", session.key}};
  EXPECT_EQ(ask(request, "").status, 200);
  EXPECT_EQ(ask({.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}}, token).status,
            200);
}

TEST_F(SignInTest, NobodySignsSomebodyElsesBrowserIn) {
  add("ada", Role::kUser);
  claims_ = {{"sub", "ada"}};
  // Login CSRF: the browser of somebody else is sent the callback of one's own sign-in.
  const Begun mine = begin();
  EXPECT_EQ(come_back("code=c&state=" + mine.state, "").headers.at("location"),
            "/#sign-in=expired");
  const Begun again = begin();
  const Begun theirs = begin();
  EXPECT_EQ(come_back("code=c&state=" + again.state, theirs.cookie).headers.at("location"),
            "/#sign-in=expired");
  // A foreign page cannot begin one, either.
  EXPECT_EQ(post("/v1/sign-in/browser", {}, {{"origin", "https://evil.example"}}).status, 409);
  EXPECT_TRUE(audit().empty());
}

TEST_F(SignInTest, AStateIsGoodOnceAndForTenMinutes) {
  add("ada", Role::kUser);
  claims_ = {{"sub", "ada"}};
  const Begun first = begin();
  EXPECT_TRUE(come_back("code=c&state=" + first.state, first.cookie)
                  .headers.at("location")
                  .starts_with("/#key="));
  EXPECT_EQ(come_back("code=c&state=" + first.state, first.cookie).headers.at("location"),
            "/#sign-in=expired");
  const Begun late = begin();
  clock_.advance(std::chrono::minutes(10));
  EXPECT_EQ(come_back("code=c&state=" + late.state, late.cookie).headers.at("location"),
            "/#sign-in=expired");
  EXPECT_EQ(come_back("state=%zz", "").headers.at("location"), "/#sign-in=expired");
}

TEST_F(SignInTest, WhereTheBrowserIsLedIsNeverElsewhere) {
  const Begun begun = begin();
  for (const std::string& query :
       {"error=access_denied&state=" + begun.state,
        std::string("code=c&state=x&iss=//evil.example"),
        std::string("redirect=https://evil.example"), std::string("state=a&state=b")}) {
    const std::string leads = come_back(query, begun.cookie).headers.at("location");
    EXPECT_TRUE(leads.starts_with("/#sign-in=")) << leads;
  }
}

TEST_F(SignInTest, SayingNoAtTheProviderIsNoMistake) {
  const Begun begun = begin();
  EXPECT_EQ(
      come_back("error=access_denied&state=" + begun.state, begun.cookie).headers.at("location"),
      "/#sign-in=cancelled");
}

TEST_F(SignInTest, AnAuthorizationOfAnotherProviderIsRefused) {
  add("ada", Role::kUser);
  claims_ = {{"sub", "ada"}};
  const Begun begun = begin();
  EXPECT_EQ(come_back("code=c&iss=https%3A%2F%2Fevil.example&state=" + begun.state, begun.cookie)
                .headers.at("location"),
            "/#sign-in=refused");
}

TEST_F(SignInTest, ATokenThatIsNotForThisSignInIsRefused) {
  add("ada", Role::kUser);
  EXPECT_EQ(reason({{"sub", "ada"}, {"aud", "another"}}), "refused");
  EXPECT_EQ(reason({{"sub", "ada"}, {"exp", seconds() - 100}}), "refused");
  EXPECT_EQ(reason({{"sub", "ada"}, {"iat", seconds() - 100}}), "refused");
  EXPECT_EQ(reason({{"sub", "ada"}, {"nonce", "another"}}), "refused");
  EXPECT_EQ(reason({{"sub", "ada"}, {"iss", "https://evil.example"}}), "refused");
  id_token_ = TestKey::other_rsa().sign("RS256", {{"sub", "ada"}});
  EXPECT_EQ(reason({{"sub", "ada"}}), "refused");
  id_token_ = "none";
  EXPECT_EQ(reason({{"sub", "ada"}}), "provider");
  id_token_.reset();
  EXPECT_EQ(reason({{"sub", "ada"}}), "");
}

TEST_F(SignInTest, AProviderThatIsDownIsNamed) {
  add("ada", Role::kUser);
  const Begun begun = begin();
  fake_.override = [](const net::HttpRequest&) {
    return net::HttpResponse{.status = 500, .body = {}};
  };
  EXPECT_EQ(come_back("code=c&state=" + begun.state, begun.cookie).headers.at("location"),
            "/#sign-in=provider");
}

TEST_F(SignInTest, ACommandWaitsUntilThePersonIsDone) {
  add("ada", Role::kUser);
  const auto begun = post("/v1/sign-in/device");
  ASSERT_EQ(begun.status, 201) << begun.body;
  const json::value document = json::parse(begun.body);
  EXPECT_EQ(document.at("userCode"), "ABCD-EFGH");
  EXPECT_EQ(begun.body.find("the-device-code"), std::string::npos) << "that is the daemon's";
  const std::string question = json::serialize(json::object{{"login", document.at("login")}});
  const auto state = [&] { return post("/v1/sign-in/device/token", question); };
  const auto right = fake_.token;
  fake_.token = [](const FakeProvider::Form&) {
    return FakeProvider::reply({{"error", "authorization_pending"}}, 400);
  };
  EXPECT_EQ(json::parse(state().body).at("state"), "waiting");
  EXPECT_EQ(fake_.asked("/token"), 1);
  EXPECT_EQ(json::parse(state().body).at("pollSeconds"), 5);
  EXPECT_EQ(fake_.asked("/token"), 1) << "no more often than the provider wants";
  fake_.token = right;
  claims_ = {{"sub", "ada"}};
  clock_.advance(std::chrono::seconds(5));
  const auto done = state();
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(form_.at("device_code"), "the-device-code");
  const json::value answer = json::parse(done.body);
  EXPECT_EQ(answer.at("user"), "ada");
  const std::string token = answer.at("token").as_string().c_str();
  EXPECT_EQ(ask({.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}}, token).status,
            200);
  EXPECT_EQ(state().status, 404) << "once";
  clock_.advance(std::chrono::hours(24));
  EXPECT_EQ(ask({.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}}, token).status,
            401);
}

TEST_F(SignInTest, AnIdTokenThatWasUsedIsRefused) {
  add("ada", Role::kUser);
  const auto login = [&] {
    const auto begun = post("/v1/sign-in/device");
    return post("/v1/sign-in/device/token",
                json::serialize(json::object{{"login", json::parse(begun.body).at("login")}}));
  };
  id_token_ = sign({{"sub", "ada"}});
  EXPECT_EQ(login().status, 200);
  const auto replayed = login();
  EXPECT_EQ(replayed.status, 403);
  EXPECT_NE(replayed.body.find("it was used already"), std::string::npos) << replayed.body;
  // Later it is too old for any sign-in that begins then, remembered or not.
  clock_.advance(std::chrono::minutes(5));
  EXPECT_NE(login().body.find("before this sign-in began"), std::string::npos);
  id_token_.reset();
  claims_ = {{"sub", "ada"}};
  EXPECT_EQ(login().status, 200);
}

TEST_F(SignInTest, APersonWhoSaysNoEndsTheSignInOfTheCommand) {
  const auto begun = post("/v1/sign-in/device");
  const std::string question =
      json::serialize(json::object{{"login", json::parse(begun.body).at("login")}});
  fake_.token = [](const FakeProvider::Form&) {
    return FakeProvider::reply({{"error", "access_denied"}}, 400);
  };
  EXPECT_EQ(post("/v1/sign-in/device/token", question).status, 403);
  EXPECT_EQ(post("/v1/sign-in/device/token", question).status, 404);
  EXPECT_EQ(post("/v1/sign-in/device/token", R"({"login":"guess"})").status, 404);
  EXPECT_EQ(post("/v1/sign-in/device/token", "{}").status, 400);
}

TEST_F(SignInTest, SoManyBeginFromOneAddressAndNoMore) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(post("/v1/sign-in/device").status, 201);
  EXPECT_EQ(post("/v1/sign-in/device").status, 503);
  EXPECT_EQ(fake_.asked("/device"), 100) << "the provider is not asked for nothing";
  clock_.advance(std::chrono::minutes(10));
  EXPECT_EQ(post("/v1/sign-in/device").status, 201);
  EXPECT_EQ(sign_in_->waiting(), 1U);
}

TEST_F(SignInTest, WhoIsNotKnownIsRefusedOrMade) {
  EXPECT_EQ(reason({{"sub", "ada"}}), "refused");
  EXPECT_FALSE(person("ada").has_value());
  set_up({.new_users = true});
  EXPECT_EQ(reason({{"sub", "ada"}}), "");
  EXPECT_EQ(person("ada")->role, Role::kUser);
  EXPECT_EQ(person("ada")->uid, std::nullopt) << "nobody of the machine";
  EXPECT_EQ(reason({{"sub", "1"}, {"preferred_username", "mallory"}}), "refused")
      << "a user of the machine";
  EXPECT_EQ(reason({{"sub", "1"}, {"preferred_username", "uid-0"}}), "refused");
  EXPECT_EQ(reason({{"sub", "1"}, {"preferred_username", "../x"}}), "refused");
  EXPECT_EQ(reason({{"sub", "1"}, {"preferred_username", "bob@example.com"}}), "refused");
}

TEST_F(SignInTest, ADomainIsLeftOutOfTheName) {
  add("ada", Role::kUser);
  set_up({.user_domain = "example.com"});
  EXPECT_EQ(reason({{"sub", "1"}, {"preferred_username", "ada@example.com"}}), "");
  EXPECT_EQ(reason({{"sub", "2"}, {"preferred_username", "ada@example.com.evil"}}), "refused");
  EXPECT_EQ(reason({{"sub", "2"}, {"preferred_username", "ada@evil@example.com"}}), "refused");
}

TEST_F(SignInTest, AnAccountIsKnownByItsSubjectAndNotByAName) {
  add("ada", Role::kUser);
  add("bob", Role::kUser);
  EXPECT_EQ(reason({{"sub", "7"}, {"preferred_username", "ada"}}), "");
  EXPECT_EQ(reason({{"sub", "8"}, {"preferred_username", "ada"}}), "refused")
      << "the name is somebody else's now";
  // Renamed at the provider, to a name that is somebody else's here.
  EXPECT_EQ(reason({{"sub", "7"}, {"preferred_username", "bob"}}), "");
  EXPECT_EQ(audit().front().user, "ada");
}

TEST_F(SignInTest, NobodyBecomesAnAdminOrRootByAName) {
  add("eve", Role::kAdmin);
  add("root", Role::kUser, 0);
  add("daemon", Role::kUser, ::geteuid() == 0 ? 4'000'000 : ::geteuid());
  EXPECT_EQ(reason({{"sub", "eve"}}), "refused");
  EXPECT_EQ(reason({{"sub", "root"}}), "refused");
  EXPECT_EQ(reason({{"sub", "daemon"}}), ::geteuid() == 0 ? "" : "refused");
  set_up({.admin_groups = {"ops"}});
  EXPECT_EQ(reason({{"sub", "eve"}, {"groups", json::array{"ops"}}}), "");
  EXPECT_EQ(person("eve")->role, Role::kAdmin);
}

TEST_F(SignInTest, AUserOfTheMachineWhoMadeATokenIsNobodysByName) {
  constexpr uid_t kCleo = 3'999'997;
  const auto made =
      ask({.method = "POST", .path = "/v1/tokens", .query = {}, .body = "{}"}, "", kCleo);
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string cleo = json::parse(made.body).at("user").as_string().c_str();
  set_up({.new_users = true});
  EXPECT_EQ(reason({{"sub", "9"}, {"preferred_username", cleo}}), "refused");
  EXPECT_EQ(audit().front().status, 403);
  // It is the same person, says an admin.
  const std::string eve = add("eve", Role::kAdmin);
  EXPECT_EQ(ask({.method = "PATCH",
                 .path = "/v1/people/" + cleo,
                 .query = {},
                 .body = R"({"uid":3999997})"},
                eve)
                .status,
            200);
  EXPECT_EQ(reason({{"sub", "9"}, {"preferred_username", cleo}}), "");
  EXPECT_EQ(person(cleo)->uid, kCleo);
}

TEST_F(SignInTest, GroupsSayWhoMayComeInAndWhoIsAnAdmin) {
  add("ada", Role::kUser);
  set_up({.allowed_groups = {"gpu-users"}, .admin_groups = {"ops"}});
  const auto with = [](json::array groups) {
    return json::object{{"sub", "ada"}, {"groups", std::move(groups)}};
  };
  EXPECT_EQ(reason({{"sub", "ada"}}), "refused");
  EXPECT_EQ(reason(with({"others"})), "refused");
  EXPECT_EQ(reason(with({"others", "gpu-users"})), "");
  EXPECT_EQ(person("ada")->role, Role::kUser);
  EXPECT_EQ(reason(with({"ops"})), "");
  EXPECT_EQ(person("ada")->role, Role::kAdmin);
  EXPECT_EQ(reason(with({"gpu-users"})), "");
  EXPECT_EQ(person("ada")->role, Role::kUser) << "no longer in the group";
}

TEST_F(SignInTest, WhoIsDisabledStaysOut) {
  add("ada", Role::kUser);
  EXPECT_EQ(reason({{"sub", "ada"}}), "");
  EXPECT_TRUE(database_->commit([](store::Connection& connection) -> Status {
    store::PeopleTable people(connection);
    DIVVY_TRY(ada, people.find("ada"));
    ada->disabled = true;
    return people.change(*ada);
  }));
  EXPECT_EQ(reason({{"sub", "ada"}, {"preferred_username", "bob"}}), "refused");
  EXPECT_EQ(audit().front().user, "ada") << "whatever the account is called now";
}

TEST_F(SignInTest, TheAuditLogHasThoseWhoCameInAndThoseWhoWereTurnedAway) {
  add("ada", Role::kUser);
  EXPECT_EQ(reason({{"sub", "ada"}}), "");
  EXPECT_EQ(reason({{"sub", "bob"}}), "refused");
  const auto entries = audit();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].user, "bob");
  EXPECT_EQ(entries[0].status, 403);
  EXPECT_NE(entries[0].outcome.find("no such user"), std::string::npos);
  EXPECT_EQ(entries[1].user, "ada");
  EXPECT_EQ(entries[1].caller, "10.0.0.7");
  EXPECT_EQ(entries[1].action, "finishBrowserSignIn");
  EXPECT_EQ(entries[1].status, 201);
  EXPECT_TRUE(entries[1].outcome.starts_with("/v1/tokens/"));
}

TEST_F(SignInTest, WithoutAProviderOnlyTokensLetAnybodyIn) {
  serve(routes());
  const auto offer = ask({.method = "GET", .path = "/v1/sign-in", .query = {}, .body = {}}, "");
  EXPECT_TRUE(json::parse(offer.body).at("provider").is_null());
  EXPECT_EQ(post("/v1/sign-in/browser").status, 501);
  EXPECT_EQ(post("/v1/sign-in/device").status, 501);
  EXPECT_EQ(post("/v1/sign-in/device/token", R"({"login":"x"})").status, 501);
  EXPECT_EQ(come_back("code=c&state=s", "").status, 501);
  serve(routes(), sign_in_.get());
  const auto named = ask({.method = "GET", .path = "/v1/sign-in", .query = {}, .body = {}}, "");
  EXPECT_EQ(json::parse(named.body).at("provider"), "The lab");
  EXPECT_EQ(json::parse(named.body).at("browser"), true);
}

TEST_F(SignInTest, AnswersAreAsTheDocumentDescribesThem) {
  add("ada", Role::kUser);
  claims_ = {{"sub", "ada"}};
  const json::object document = openapi_document();
  const auto wrong = [&](const net::HttpRequest& request) {
    const net::HttpResponse answer = ask(request, "");
    EXPECT_LT(answer.status, 400) << answer.body;
    return check_traffic(document, {.method = request.method,
                                    .path = request.path,
                                    .query = request.query,
                                    .request_body = request.body,
                                    .status = answer.status,
                                    .content_type = answer.content_type,
                                    .body = answer.body});
  };
  const auto request = [](const char* method, const char* path, std::string body = {}) {
    return net::HttpRequest{.method = method, .path = path, .query = {}, .body = std::move(body)};
  };
  const std::vector<std::string> nothing;
  EXPECT_EQ(wrong(request("GET", "/v1/sign-in")), nothing);
  EXPECT_EQ(wrong(request("POST", "/v1/sign-in/browser")), nothing);
  EXPECT_EQ(wrong(request("GET", "/v1/sign-in/callback")), nothing);
  EXPECT_EQ(wrong(request("POST", "/v1/sign-in/device")), nothing);
  const auto begun = json::parse(post("/v1/sign-in/device").body);
  const auto question = request("POST", "/v1/sign-in/device/token",
                                json::serialize(json::object{{"login", begun.at("login")}}));
  const auto right = fake_.token;
  fake_.token = [](const FakeProvider::Form&) {
    return FakeProvider::reply({{"error", "slow_down"}}, 400);
  };
  EXPECT_EQ(wrong(question), nothing);
  fake_.token = right;
  clock_.advance(std::chrono::seconds(10));
  EXPECT_EQ(wrong(question), nothing);
}

TEST_F(SignInTest, TheConsoleIsAtOneAddress) {
  const auto is_taken = [this](const std::string& console) {
    oidc::ProviderOptions provider;
    provider.issuer = fake_.issuer;
    provider.client_id = "divvy";
    return SignIn::create(oidc::Provider::create(std::move(provider), clock_).value(),
                          {.provider_name = {}, .console_url = console, .rules = {}}, *database_,
                          clock_)
        .has_value();
  };
  EXPECT_TRUE(is_taken(""));
  EXPECT_TRUE(is_taken("https://gpu.example:8443/"));
  EXPECT_FALSE(is_taken("https://gpu.example/console"));
  EXPECT_FALSE(is_taken("http://gpu.example"));
}

}  // namespace
}  // namespace divvy::api
