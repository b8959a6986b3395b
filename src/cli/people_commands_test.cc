// The commands about queues, people and contexts against canned documents.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

class PeopleCommands : public testing::Test {
 protected:
  CliOutcome divvy(std::vector<std::string> arguments) {
    return run_divvy(arguments, daemon_.socket(), environment_);
  }
  FakeDaemon daemon_;
  std::map<std::string, std::string> environment_{
      {"DIVVY_CONFIG", (daemon_.folder() / "config/config.yaml").string()}};
};

TEST_F(PeopleCommands, QueuesAreListed) {
  daemon_.on("GET /v1/queues",
             R"({"items":[{"path":"research","quota":{"gpu":"4","memoryBytes":null,"jobs":50},
             "mayBorrow":true,"mostGpu":null,"weight":1,"held":{"gpu":"1.5","memoryBytes":1073741824,
             "jobs":3},"borrowedGpu":"0","waiting":2,"usedGpuHours":1.5,"score":0.2}]})");
  EXPECT_EQ(divvy({"queue", "list"}).out,
            "QUEUE          GPU   MEMORY     JOBS  WAITING  BORROWED\n"
            "research  1.5 of 4  1.0 GiB  3 of 50        2         0\n");
  EXPECT_EQ(divvy({"queue", "list", "-o", "name"}).out, "research\n");
}

TEST_F(PeopleCommands, QueuesAndQuotasAreSetAndReset) {
  daemon_.on("PUT /v1/queues/research/vision", "{}");
  EXPECT_EQ(divvy({"queue", "set", "research/vision", "--gpu", "4", "--no-borrow"}).status,
            kExitOk);
  EXPECT_EQ(daemon_.last_asked(), R"(PUT /v1/queues/research/vision {"gpu":"4","borrow":false})");
  EXPECT_EQ(divvy({"queue", "set", "research/vision", "--most-gpu", "8", "--user-gpu", "1"}).status,
            kExitOk);
  EXPECT_EQ(daemon_.last_asked(),
            R"(PUT /v1/queues/research/vision {"user_gpu":"1","most_gpu":"8"})");
  EXPECT_EQ(divvy({"queue", "set", "../x"}).status, kExitUsage);
  daemon_.on("DELETE /v1/quotas/ada", "{}");
  EXPECT_EQ(divvy({"quota", "reset", "ada"}).out,
            "the quota of ada is as the configuration has it\n");
}

TEST_F(PeopleCommands, UsageIsInGpuHours) {
  daemon_.on("GET /v1/usage", [](const net::HttpRequest& request) {
    if (contains(request.query, "format=csv")) return net::HttpResponse{.body = "user,jobs\n"};
    return net::HttpResponse{.body = R"({"items":[{"name":"ada","jobs":2,
      "heldShareThousandthSeconds":3600000,"usedShareThousandthSeconds":1800000,
      "cpuMilliseconds":7200000}]})"};
  });
  EXPECT_EQ(divvy({"usage", "--since", "30d"}).out,
            "USER  JOBS  GPU HOURS  OF THEM USED  CPU HOURS\n"
            "ada      2      1.000         0.500      2.000\n");
  EXPECT_TRUE(contains(daemon_.last_asked(), "since=")) << daemon_.last_asked();
  EXPECT_EQ(divvy({"usage", "-o", "csv"}).out, "user,jobs\n");
}

TEST_F(PeopleCommands, TheAuditLogIsAskedForPageByPageAndSaysWhatBecameOfEach) {
  daemon_.on("GET /v1/audit", [](const net::HttpRequest& request) {
    const bool second = contains(request.query, "after=7");
    return net::HttpResponse{.body = second ? R"({"items":[{"number":6,"unixMilliseconds":
      1767225600000,"user":"bob","from":"10.0.0.7","token":"0123456789abcdef","action":"cancelJob",
      "object":"/v1/jobs/17","status":403,"outcome":"job 17 belongs to ada"}],"next":null})"
                                            : R"({"items":[{"number":7,"unixMilliseconds":
      1767225600000,"user":"ada","from":"uid 1000, pid 4711","token":null,"action":"submitJob",
      "object":"/v1/jobs","status":201,"outcome":"/v1/jobs/17"}],"next":7})"};
  });
  const std::string table = divvy({"audit", "--user", "ada"}).out;
  EXPECT_TRUE(
      contains(table, "ada   uid 1000, pid 4711  submitJob  /v1/jobs     done    /v1/jobs/17"))
      << table;
  EXPECT_TRUE(contains(table, "bob   10.0.0.7            cancelJob  /v1/jobs/17  denied  job 17"))
      << table;
  EXPECT_TRUE(contains(daemon_.last_asked(), "user=ada&limit=99&after=7")) << daemon_.last_asked();
  EXPECT_EQ(divvy({"audit", "-o", "name"}).out, "7\n6\n");
  EXPECT_EQ(divvy({"audit", "-n", "1", "-o", "name"}).out, "7\n");
  EXPECT_EQ(divvy({"audit", "-n", "0"}).status, kExitUsage);
}

TEST_F(PeopleCommands, UsersAreAddedChangedAndRemoved) {
  daemon_.on("POST /v1/people", R"({"name":"ada","role":"admin","disabled":false})", 201);
  EXPECT_EQ(divvy({"user", "add", "ada", "--role", "admin"}).out, "ada is an admin\n");
  EXPECT_EQ(daemon_.last_asked(), R"(POST /v1/people {"role":"admin","name":"ada"})");
  daemon_.on("PATCH /v1/people/ada", R"({"name":"ada","role":"user","disabled":true})");
  EXPECT_EQ(divvy({"user", "set", "ada", "--disable"}).out, "ada is a user, disabled\n");
  EXPECT_EQ(divvy({"user", "set", "ada"}).status, kExitUsage);
  daemon_.on("DELETE /v1/people/ada", "{}");
  EXPECT_EQ(divvy({"user", "remove", "ada"}).out, "ada is removed\n");
  daemon_.on("GET /v1/whoami", R"({"name":"ada","role":"user"})");
  EXPECT_EQ(divvy({"whoami"}).out, "ada (user)\n");
}

TEST_F(PeopleCommands, ATokenIsPrintedOnceOrSavedForItsOwnerOnly) {
  daemon_.on("POST /v1/tokens", R"({"id":"k1","token":"divvy_secret"})", 201);
  const CliOutcome printed = divvy({"token", "create", "--label", "laptop"});
  EXPECT_EQ(printed.out, "divvy_secret\n");
  const std::string file = (daemon_.folder() / "token").string();
  const CliOutcome saved = divvy({"token", "create", "--to", file});
  EXPECT_FALSE(contains(saved.out + saved.err, "divvy_secret"));
  struct stat info{};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(divvy({"token", "create", "--to", file}).status, kExitUsage);
}

TEST_F(PeopleCommands, ContextsAreKeptAndUsed) {
  const std::string at = "unix:" + daemon_.socket().string();
  const auto elsewhere = [&](std::vector<std::string> arguments) {
    return run_divvy(arguments, "/nowhere/api.sock", environment_);
  };
  daemon_.on("GET /v1/whoami", R"({"name":"ada","role":"user"})");
  EXPECT_EQ(elsewhere({"whoami"}).status, kExitError);
  EXPECT_EQ(elsewhere({"context", "add", "lab", "--at", at}).status, kExitOk);
  EXPECT_EQ(elsewhere({"--context", "lab", "whoami"}).out, "ada (user)\n");
  EXPECT_EQ(elsewhere({"context", "use", "lab"}).status, kExitOk);
  EXPECT_EQ(elsewhere({"whoami"}).status, kExitOk);
  EXPECT_EQ(elsewhere({"--context", "local", "whoami"}).status, kExitError);
  EXPECT_EQ(elsewhere({"context", "use", "moon"}).status, kExitNotFound);
  EXPECT_EQ(elsewhere({"context", "list", "--names"}).out, "local\nlab\n");
  EXPECT_EQ(elsewhere({"config", "get", "contexts.lab.server"}).out, at + "\n");
  EXPECT_EQ(elsewhere({"config", "set", "queue", ""}).status, kExitOk) << "takes it away";
  EXPECT_EQ(elsewhere({"config", "set", "queue", "research"}).status, kExitOk);
  EXPECT_TRUE(contains(elsewhere({"config", "view"}).out, "queue: \"research\"\n"));
  struct stat info{};
  ASSERT_EQ(::stat(environment_["DIVVY_CONFIG"].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(elsewhere({"context", "remove", "lab"}).status, kExitOk);
  EXPECT_EQ(elsewhere({"whoami"}).status, kExitError);
}

TEST_F(PeopleCommands, OptionsGoBeforeTheEnvironmentAndThatBeforeTheFile) {
  daemon_.on("GET /v1/whoami", [](const net::HttpRequest& request) {
    return net::HttpResponse{
        .body = fmt::format(R"({{"name":"{}","role":"user"}})", request.header("authorization"))};
  });
  const std::string token = (daemon_.folder() / "token").string();
  std::ofstream(token) << "of-the-file\n";
  ASSERT_EQ(::chmod(token.c_str(), 0600), 0);
  const std::string at = "unix:" + daemon_.socket().string();
  ASSERT_EQ(divvy({"context", "add", "lab", "--at", at, "--token-file", token}).status, kExitOk);
  environment_["DIVVY_CONTEXT"] = "lab";
  EXPECT_EQ(divvy({"whoami"}).out, "Bearer of-the-file (user)\n");
  environment_["DIVVY_TOKEN"] = "of-the-environment";
  EXPECT_EQ(divvy({"whoami"}).out, "Bearer of-the-environment (user)\n");
  environment_["DIVVY_SERVER"] = "unix:/nowhere";
  EXPECT_EQ(divvy({"whoami"}).status, kExitError);
  EXPECT_EQ(divvy({"whoami", "--server", at}).status, kExitOk);
  EXPECT_EQ(divvy({"whoami", "--context", "lab"}).status, kExitOk);
  ASSERT_EQ(::chmod(token.c_str(), 0644), 0);
  environment_.erase("DIVVY_TOKEN");
  EXPECT_EQ(divvy({"whoami", "--context", "lab"}).status, kExitDenied);
}

TEST_F(PeopleCommands, NamesAreCompletedFromTheDaemon) {
  daemon_.on("GET /v1/jobs", R"({"items":[{"id":17,"name":"train","state":"running"}]})");
  EXPECT_EQ(divvy({"__complete", "--", "delete", ""}).out, "17\ttrain running\ntrain\trunning\n");
  EXPECT_EQ(run_divvy({"__complete", "--", "delete", ""}, "/nowhere/api.sock").out, "");
}

}  // namespace
}  // namespace divvy::cli
