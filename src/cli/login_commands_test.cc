// Signing in to a context and out of it, against canned documents.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

constexpr const char* kBegun = R"({"address":"https://id.example/device","completeAddress":
  "https://id.example/device?code=ABCD-EFGH","userCode":"ABCD-EFGH","login":"the-login",
  "expiresSeconds":600,"pollSeconds":0})";

class LoginCommands : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(divvy({"context", "add", "lab", "--at", "unix:" + daemon_.socket().string()}).status,
              kExitOk);
    daemon_.on("POST /v1/sign-in/device", kBegun, 201);
    daemon_.on("POST /v1/sign-in/device/token",
               R"({"state":"done","user":"ada","token":"divvy_0123_4567"})");
  }
  CliOutcome divvy(const std::vector<std::string>& arguments) {
    return run_divvy(arguments, "/nowhere/api.sock", environment_);
  }
  [[nodiscard]] std::filesystem::path token_file() const {
    return daemon_.folder() / "config/tokens/lab";
  }
  static bool says(const std::string& text, std::string_view piece) {
    return text.find(piece) != std::string::npos;
  }

  FakeDaemon daemon_;
  std::map<std::string, std::string> environment_{
      {"DIVVY_CONFIG", (daemon_.folder() / "config/config.yaml").string()}};
};

TEST_F(LoginCommands, LoginShowsTheCodeAndKeepsTheTokenForItsOwnerOnly) {
  const CliOutcome done = divvy({"login", "--context", "lab"});
  EXPECT_EQ(done.status, kExitOk) << done.err;
  EXPECT_EQ(done.out, "signed in to lab as ada\n");
  EXPECT_TRUE(
      says(done.err, "open https://id.example/device in any browser and enter the code ABCD-EFGH"))
      << done.err;
  EXPECT_FALSE(says(done.out + done.err, "4567"));
  EXPECT_FALSE(says(done.out + done.err, "the-login"));
  EXPECT_EQ(daemon_.last_asked(), R"(POST /v1/sign-in/device/token {"login":"the-login"})");
  struct stat info{};
  ASSERT_EQ(::stat(token_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  daemon_.on("GET /v1/whoami", [](const net::HttpRequest& request) {
    return net::HttpResponse{
        .body = fmt::format(R"({{"name":"{}","role":"user"}})", request.header("authorization"))};
  });
  EXPECT_EQ(divvy({"whoami", "--context", "lab"}).out, "Bearer divvy_0123_4567 (user)\n");
  EXPECT_EQ(divvy({"login", "--context", "lab"}).status, kExitOk) << "again, over the old one";
}

TEST_F(LoginCommands, LoginWaitsForThePersonAndForADaemonThatIsBusy) {
  auto answers = std::make_shared<std::vector<net::HttpResponse>>(std::vector<net::HttpResponse>{
      {.status = 200, .body = R"({"state":"done","user":"ada","token":"divvy_0_1"})"},
      {.status = 503, .body = R"({"detail":"the provider is slow"})"},
      {.status = 200, .body = R"({"state":"waiting","pollSeconds":0})"}});
  daemon_.on("POST /v1/sign-in/device/token", [answers](const net::HttpRequest&) {
    net::HttpResponse next = answers->back();
    answers->pop_back();
    return next;
  });
  EXPECT_EQ(divvy({"login", "--context", "lab"}).out, "signed in to lab as ada\n");
  EXPECT_TRUE(answers->empty());
}

TEST_F(LoginCommands, WhoIsNotLetInIsToldWhyAndKeepsWhatTheyHad) {
  daemon_.on("POST /v1/sign-in/device/token",
             R"({"detail":"ada is not let in: there is no such user here"})", 403);
  const CliOutcome refused = divvy({"login", "--context", "lab"});
  EXPECT_EQ(refused.status, kExitDenied);
  EXPECT_TRUE(says(refused.err, "ada is not let in")) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(token_file()));
  EXPECT_EQ(divvy({"config", "get", "contexts.lab.token_file"}).out, "\n");
}

TEST_F(LoginCommands, LogoutRevokesTheTokenAndForgetsIt) {
  ASSERT_EQ(divvy({"login", "--context", "lab"}).status, kExitOk);
  daemon_.on("DELETE /v1/tokens/0123", R"({"id":"0123","revoked":true})");
  EXPECT_EQ(divvy({"logout", "--context", "lab"}).out, "signed out of lab\n");
  EXPECT_EQ(daemon_.last_asked(), "DELETE /v1/tokens/0123");
  EXPECT_FALSE(std::filesystem::exists(token_file()));
  EXPECT_EQ(divvy({"config", "get", "contexts.lab.token_file"}).out, "\n");
  EXPECT_EQ(divvy({"logout", "--context", "lab"}).status, kExitOk) << "nobody is signed in";
}

TEST_F(LoginCommands, LogoutForgetsATokenThatIsNotValidAnyMore) {
  ASSERT_EQ(divvy({"login", "--context", "lab"}).status, kExitOk);
  daemon_.on("DELETE /v1/tokens/0123", R"({"detail":"the token is not valid"})", 401);
  EXPECT_EQ(divvy({"logout", "--context", "lab"}).status, kExitOk);
  ASSERT_EQ(divvy({"login", "--context", "lab"}).status, kExitOk);
  daemon_.on("DELETE /v1/tokens/0123", R"({"detail":"not now"})", 503);
  EXPECT_NE(divvy({"logout", "--context", "lab"}).status, kExitOk);
  EXPECT_TRUE(std::filesystem::exists(token_file())) << "it still lets somebody in";
}

TEST_F(LoginCommands, ThereIsAContextToKeepTheTokenFor) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"login"},
        {"login", "--context", "local"},
        {"login", "--server", "https://gpu.example:7443"},
        {"login", "--context", "moon"}}) {
    const CliOutcome refused = divvy(arguments);
    EXPECT_NE(refused.status, kExitOk);
    EXPECT_TRUE(says(refused.err, "context")) << refused.err;
  }
  ASSERT_EQ(divvy({"context", "add", "clear", "--at", "http://gpu.example:7443"}).status, kExitOk);
  EXPECT_TRUE(says(divvy({"login", "--context", "clear"}).err, "use https://"));
}

}  // namespace
}  // namespace divvy::cli
