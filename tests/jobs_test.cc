// Jobs from end to end: the real daemon on two simulated GPUs, with its queue, store, runtimes and
// API, and members that are real processes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "api/openapi.h"
#include "job_machine.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class Jobs : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }
};

TEST_F(Jobs, AJobRunsInItsSliceAndItsOutputIsKept) {
  const auto id = submit({{"command", {"sh", "-c", "echo $DIVVY_JOB_ID; echo oops >&2; exit 3"}}});
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(exit_code(id), 3);
  const net::HttpRequest output{
      .method = "GET", .path = "/v1/jobs/" + std::to_string(id) + "/logs", .query = {}, .body = {}};
  const auto logs =
      net::http_request(folder() / "run/divvyd.sock", output, std::chrono::seconds(20));
  ASSERT_TRUE(logs);
  // The two streams are two pipes: which line came first is not known.
  EXPECT_NE(logs->body.find(std::to_string(id) + "\n"), std::string::npos) << logs->body;
  EXPECT_NE(logs->body.find("oops\n"), std::string::npos) << logs->body;
  // The end is written down first, and the slice goes after it.
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(Jobs, ASliceLimitsTheMember) {
  const auto id = submit({{"gpu", 0.3},
                          {"gpu_memory", "4GiB"},
                          {"command", {GPULOAD_PROGRAM, "alloc", "--chunk", "64MiB", "--exact"}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  const json::value report = json::parse(divvy({"logs", std::to_string(id)}).out);
  const auto bytes = report.at("families").at(0).at("bytes").to_number<std::uint64_t>();
  EXPECT_LE(bytes, std::uint64_t{4} << 30);
  EXPECT_GE(bytes, std::uint64_t{3} << 30);
}

TEST_F(Jobs, WhatAJobUsedIsKnownAfterItsEndAndAfterARestart) {
  const auto id = submit({{"gpu", 0.3},
                          {"gpu_memory", "4GiB"},
                          {"command", {GPULOAD_PROGRAM, "alloc", "--chunk", "64MiB", "--exact"}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  stop_daemon(SIGKILL);
  start_daemon();
  const json::object used = job(id).at("accounting").as_object();
  EXPECT_GT(used.at("cpuMilliseconds").to_number<std::int64_t>(), 0);
  EXPECT_GT(used.at("ramPeakBytes").to_number<std::int64_t>(), 0);
  EXPECT_GE(used.at("gpuMemoryPeakBytes").to_number<std::int64_t>(), std::int64_t{3} << 30);
  EXPECT_LE(used.at("gpuMemoryPeakBytes").to_number<std::int64_t>(), std::int64_t{4} << 30);
  EXPECT_GE(used.at("waitedMilliseconds").to_number<std::int64_t>(), 0);
  EXPECT_GT(used.at("gpuHeldMilliseconds").to_number<std::int64_t>(), 0);
  const std::string shown = divvy({"get", std::to_string(id)}).out;
  EXPECT_TRUE(has(shown, "CPU time")) << shown;
  EXPECT_TRUE(has(shown, "GPU memory")) << shown;
  EXPECT_TRUE(has(divvy({"describe", std::to_string(id)}).out, ", RAM "));
  EXPECT_TRUE(has(divvy({"list", "--all", "-o", "wide"}).out, "GPU MEMORY"));
  EXPECT_TRUE(has(divvy({"usage", "--by", "job", "-o", "csv"}).out, "cpu_hours"));
}

TEST_F(Jobs, TheProgramSeesTheMemoryThatWasAskedOfAWholeGpuAndOfAPart) {
  const json::object info{{"gpu_memory", "10GiB"}, {"command", {GPULOAD_PROGRAM, "info"}}};
  json::object whole = info;
  whole["gpu"] = 1;
  for (const json::object& asked : {info, whole}) {
    const auto id = submit(asked);
    ASSERT_TRUE(becomes(id, "succeeded"));
    const json::value seen = json::parse(divvy({"logs", std::to_string(id)}).out);
    EXPECT_EQ(seen.at("memory").at("device_total_bytes").to_number<std::int64_t>(),
              std::int64_t{10} << 30);
    EXPECT_TRUE(has(divvy({"describe", std::to_string(id)}).out, "10GiB"));
  }
}

TEST_F(Jobs, AJobWithoutAGpuSeesNone) {
  const auto full = submit(waiting("full", 2));
  ASSERT_TRUE(becomes(full, "running"));
  const Outcome submitted = divvy({"submit", "--gpu", "0", "--ulimit", "core=unlimited", "--ulimit",
                                   "nofile=-1", "--dry-run", "-o", "json", "--", "true"});
  EXPECT_EQ(submitted.status, 0) << submitted.err;
  EXPECT_TRUE(has(submitted.out, "unlimited")) << submitted.out;
  const auto id =
      submit({{"gpu", 0}, {"command", {"sh", "-c", "echo [$CUDA_VISIBLE_DEVICES] [$LD_PRELOAD]"}}});
  ASSERT_TRUE(becomes(id, "succeeded")) << history(id);
  EXPECT_EQ(divvy({"logs", std::to_string(id)}).out, "[] []\n");
  EXPECT_EQ(tenants(), 1U);
}

TEST_F(Jobs, WhatNoMachineCanRunIsRefusedOrHeldForCapacity) {
  const Outcome refused = divvy({"submit", "--gpu", "5", "--", "true"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(has(refused.err, "no node has 5 GPUs")) << refused.err;
  EXPECT_TRUE(has(refused.err, "--hold-for-capacity")) << refused.err;
  const Outcome taken = divvy({"submit", "--gpu", "5", "--hold-for-capacity", "--", "true"});
  EXPECT_EQ(taken.status, 0) << taken.err;
  EXPECT_TRUE(has(divvy({"explain", "1"}).out, "held until a machine can run it"));
}

TEST_F(Jobs, WhoDoesNotFitWaitsSaysWhyAndStartsWhenThereIsRoom) {
  const auto first = submit(waiting("first", 2));
  ASSERT_TRUE(becomes(first, "running"));
  const auto second = submit(waiting("second", 1));
  ASSERT_TRUE(eventually([&] { return !job(second).at("waits").is_null(); }));
  EXPECT_EQ(job(second).at("waits").at("place").to_number<int>(), 1);
  EXPECT_EQ(ask("DELETE", "/v1/jobs/" + std::to_string(first)).status, 200);
  EXPECT_TRUE(becomes(first, "cancelled"));
  EXPECT_TRUE(becomes(second, "running"));
}

TEST_F(Jobs, TheDaemonIsKilledAndTheWorkGoesOn) {
  const auto running = submit(waiting("running"));
  ASSERT_TRUE(becomes(running, "running"));
  ASSERT_TRUE(eventually([&] { return starts("running") == 1; }));
  const auto ends = submit(gated("ends", 0.3, 7));
  ASSERT_TRUE(becomes(ends, "running"));
  stop_daemon(SIGKILL);
  open_gate("ends");
  start_daemon();
  EXPECT_TRUE(becomes(ends, "failed"));
  EXPECT_EQ(exit_code(ends), 7);
  EXPECT_EQ(state(running), "running");
  EXPECT_EQ(starts("running"), 1) << "not started twice";
  EXPECT_EQ(ask("DELETE", "/v1/jobs/" + std::to_string(running)).status, 200);
  EXPECT_TRUE(becomes(running, "cancelled"));
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

// The daemon has given up the power to open what belongs to other users.
TEST_F(Jobs, AJobOfAnotherUserRunsAsThemAndIsStoppedWithWhatIsLeftOfItsPowers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::permissions(folder(), fs::perms(0755));
  ASSERT_EQ(ask("POST", "/v1/people", R"({"name":"ada","uid":65534})").status, 201);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    const Answer answer = ask("POST", "/v1/jobs",
                              R"({"name":"theirs","gpu":0.3,"working_directory":"/",)"
                              R"("command":["sh","-c","id -u; exec sleep 1000"]})");
    ::_exit(answer.status == 201 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(becomes(1, "running"));
  EXPECT_EQ(job(1).at("owner").as_string(), "ada");
  EXPECT_TRUE(eventually([&] { return divvy({"logs", "1"}).out == "65534\n"; }));
  EXPECT_EQ(divvy({"delete", "1"}).status, 0);
  EXPECT_TRUE(becomes(1, "cancelled"));
}

TEST_F(Jobs, AGangStartsTogetherAndMembersKnowEachOther) {
  const auto id =
      submit({{"members", 2},
              {"gpu", 0.5},
              {"command",
               {"sh", "-c",
                "echo $RANK $WORLD_SIZE $MASTER_ADDR > " + folder().string() + "/rank.$RANK"}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  for (const std::string rank : {"0", "1"}) {
    std::ifstream file(folder() / ("rank." + rank));
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, rank + " 2 127.0.0.1");
  }
}

// Everything that is said here is as the API's own description says.
TEST_F(Jobs, TrafficIsAsTheOpenApiDocumentDescribesIt) {
  const auto id = submit({{"command", {"true"}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  const json::object document = ask("GET", "/v1/openapi.json").body;
  EXPECT_EQ(document.at("openapi").as_string(), "3.1.0");
  const std::string job = "/v1/jobs/" + std::to_string(id);
  const auto long_one = submit(waiting("long", 0.2));
  ASSERT_TRUE(becomes(long_one, "running"));
  const std::string running = "/v1/jobs/" + std::to_string(long_one);
  struct Said {
    std::string method;
    std::string path;
    std::string query;
    std::string body;
  };
  for (const Said& said : std::vector<Said>{
           {"POST", "/v1/jobs", "", R"({"gpu": 0.2, "command": ["true"], "name": "described"})"},
           {"POST", "/v1/jobs", "dry_run=true", R"({"gpu": 0.2, "command": ["true"]})"},
           {"POST", "/v1/jobs", "", R"({"gpu": "much"})"},
           {"GET", "/v1/jobs", "state=succeeded&limit=1", ""},
           {"GET", job, "", ""},
           {"GET", job + "/explain", "", ""},
           {"GET", job + "/attempts", "", ""},
           {"GET", job + "/members", "", ""},
           {"GET", "/v1/jobs/9999", "", ""},
           {"POST", job + "/suspend", "", ""},
           {"PATCH", job, "", R"({"priority": 1})"},
           {"PATCH", running, "", R"({"priority": 1, "time_limit": "1h"})"},
           {"POST", running + "/requeue", "", ""},
           {"GET", "/v1/whoami", "", ""},
           {"GET", "/v1/people", "", ""},
           {"POST", "/v1/people", "", R"({"name": "ada", "role": "user"})"},
           {"PATCH", "/v1/people/ada", "", R"({"disabled": true})"},
           {"POST", "/v1/tokens", "", R"({"user": "ada", "label": "laptop", "expires_in": "1h"})"},
           {"GET", "/v1/tokens", "everybody=true", ""},
           {"DELETE", "/v1/people/ada", "", ""},
           {"PUT", "/v1/queues/research", "", R"({"gpu": 1, "weight": 2})"},
           {"GET", "/v1/queues", "", ""},
           {"DELETE", "/v1/queues/research", "", ""},
           {"PUT", "/v1/quotas/bob", "", R"({"gpu": 1})"},
           {"GET", "/v1/quotas", "", ""},
           {"GET", "/v1/usage", "by=user", ""},
           {"POST", "/v1/jobs/prune", "", R"({"older_than": "1h"})"}}) {
    net::HttpRequest request{
        .method = said.method, .path = said.path, .query = said.query, .body = said.body};
    const auto answer =
        net::http_request(folder() / "run/divvyd.sock", request, std::chrono::seconds(20));
    ASSERT_TRUE(answer.has_value());
    EXPECT_LT(answer->status, 500) << said.method << " " << said.path << ": " << answer->body;
    for (const std::string& wrong :
         api::check_traffic(document, {.method = said.method,
                                       .path = said.path,
                                       .query = said.query,
                                       .request_body = said.body,
                                       .status = answer->status,
                                       .content_type = answer->content_type,
                                       .body = answer->body})) {
      ADD_FAILURE() << said.method << " " << said.path << ": " << wrong;
    }
  }
}

TEST_F(Jobs, BadRequestsNameTheField) {
  for (const auto& [body, field] : std::vector<std::pair<std::string, std::string>>{
           {R"({"gpu": 0.3})", "command"},
           {R"({"gpu": -1, "command": ["true"]})", "gpu"},
           {R"({"gpu": 0.3, "command": ["true"], "queue": "nowhere"})", "queue"},
           {R"({"gpu": 0.3, "command": ["true"], "comand": 1})", "comand"},
           {"nonsense", ""}}) {
    const Answer answer = ask("POST", "/v1/jobs", body);
    EXPECT_EQ(answer.status / 100, 4) << body;
    EXPECT_NE(std::string(answer.body.at("detail").as_string()).find(field), std::string::npos)
        << json::serialize(answer.body);
  }
  EXPECT_EQ(ask("GET", "/v1/jobs/99").status, 404);
  EXPECT_EQ(ask("GET", "/v1/jobs/x").status, 400);
}

}  // namespace
}  // namespace divvy::testing
