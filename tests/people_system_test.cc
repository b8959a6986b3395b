// People and their tokens against the real daemon, which serves its API on the network inside TLS:
// who may come in, whose jobs are whose, and what becomes of secrets.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "api/routes.h"
#include "job_machine.h"
#include "net/http.h"
#include "net/tls_testing.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uid_t kNobody = 65534;

class PeopleSystem : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    // Jobs of others than root run below it.
    fs::permissions(folder(), fs::perms(0711));
    identity_ = net::make_test_identity(folder(), "server", "gpu.example");
    environment_.push_back("DIVVY_CONFIG=" + (folder() / "client.yaml").string());
    start_served();
  }
  // Most tests ask again and again until something happens.
  void start_served(const std::string& max_rate = "100000") {
    start_daemon({"--set", "api.max_rate=" + max_rate, "--set", "api.address=127.0.0.1:0", "--set",
                  "api.certificate=" + identity_.certificate.string(), "--set",
                  "api.key=" + identity_.key.string()});
    const std::string log = daemon_log();
    const std::string word = "API for the network port=";
    ASSERT_TRUE(has(log, word)) << log;
    port_ = static_cast<std::uint16_t>(std::stoi(log.substr(log.find(word) + word.size())));
  }

  // Somebody who exists on this machine, so that their jobs can run.
  void add_person(const std::string& name) {
    const uid_t uid = ::geteuid() == 0 ? kNobody : ::geteuid();
    const Outcome added = divvy({"user", "add", name, "--uid", std::to_string(uid)});
    ASSERT_EQ(added.status, 0) << added.err;
  }
  std::string token_for(const std::string& user, const std::string& expires = "1h") {
    const Outcome made = divvy({"token", "create", "--user", user, "--expires", expires});
    EXPECT_EQ(made.status, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }
  std::string token_id(const std::string& user) {
    const Answer all = ask("GET", "/v1/tokens?everybody=true");
    for (const json::value& one : all.body.at("items").as_array()) {
      if (one.at("user").as_string() == user) return std::string(one.at("id").as_string());
    }
    return {};
  }

  // Over the network. An empty token: without one.
  net::HttpResponse call(const std::string& token, const std::string& method,
                         const std::string& path, const std::string& body = {}) {
    net::HttpTarget target;
    target.network = net::TcpAddress{"127.0.0.1", port_};
    target.tls = net::TlsTrust{identity_.certificate, "gpu.example"};
    net::HttpRequest request{.method = method, .path = path, .query = {}, .body = body};
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    const auto answer = net::http_request(target, request, std::chrono::seconds(20));
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(net::HttpResponse());
  }
  int status(const std::string& token, const std::string& method, const std::string& path) {
    return call(token, method, path).status;
  }
  std::uint64_t submit_as(const std::string& token, json::object job) {
    const auto answer = call(token, "POST", "/v1/jobs", json::serialize(job));
    EXPECT_EQ(answer.status, 201) << answer.body;
    if (answer.status != 201) return 0;
    return json::parse(answer.body).at("items").at(0).at("id").to_number<std::uint64_t>();
  }

  net::TlsIdentity identity_;
  std::uint16_t port_ = 0;
};

TEST_F(PeopleSystem, ATokenOpensTheApiOnTheNetworkAndNothingElseDoes) {
  add_person("ada");
  const std::string token = token_for("ada");
  EXPECT_EQ(status(token, "GET", "/v1/jobs"), 200);
  const auto who = call(token, "GET", "/v1/whoami");
  EXPECT_EQ(json::parse(who.body).at("name").as_string(), "ada");
  const auto refused = call("", "GET", "/v1/jobs");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.content_type, "application/problem+json");
  EXPECT_EQ(json::parse(refused.body).at("status").to_number<int>(), 401);
  // A wrong one is refused in the same words.
  EXPECT_EQ(call(token + "x", "GET", "/v1/jobs").body,
            call("divvy_nonsense", "GET", "/v1/jobs").body);
  EXPECT_EQ(status(token + "x", "GET", "/v1/jobs"), 401);
  // The machine's own things are there too; slices for a process that asks are not.
  EXPECT_EQ(status(token, "GET", "/v1/gpus"), 200);
  EXPECT_EQ(status(token, "GET", "/v1/tenants"), 200);
  EXPECT_EQ(status(token, "POST", "/v1/tenants"), 501);
  EXPECT_EQ(status(token, "POST", "/v1/gpus/0/cordon"), 403) << "ada is no admin";
  EXPECT_EQ(status("", "GET", "/v1/gpus"), 401);
}

TEST_F(PeopleSystem, ARefusedTokenIsLoggedWithTheAddressAndWithoutTheToken) {
  EXPECT_EQ(status("divvy_guess", "GET", "/v1/jobs"), 401);
  EXPECT_TRUE(eventually([&] { return has(daemon_log(), "token refused"); }));
  EXPECT_TRUE(has(daemon_log(), "from=127.0.0.1")) << daemon_log();
  EXPECT_FALSE(has(daemon_log(), "divvy_guess"));
}

TEST_F(PeopleSystem, WhoGuessesTokensIsSlowedDownAndNobodyElseAtTheSameAddress) {
  add_person("ada");
  const std::string token = token_for("ada");
  stop_daemon(SIGTERM);
  start_served("1");
  int told = 401;
  while (told == 401) told = status("divvy_guess", "GET", "/v1/whoami");
  EXPECT_EQ(told, 429);
  EXPECT_EQ(status(token, "GET", "/v1/whoami"), 200);
}

TEST_F(PeopleSystem, WhoMakesATokenIsAUserSinceThen) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ASSERT_EQ(divvy({"token", "create"}).status, 0);
  const json::array people = ask("GET", "/v1/people").body.at("items").as_array();
  ASSERT_EQ(people.size(), 1U);
  EXPECT_GE(people[0].at("createdUnixMilliseconds").to_number<std::int64_t>(),
            std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  const Outcome unknown = divvy({"token", "create", "--user", "nobody-yet"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_TRUE(has(unknown.err, "divvy user add nobody-yet")) << unknown.err;
}

TEST_F(PeopleSystem, TheNetworkApiRefusesPlaintext) {
  const auto plain = net::http_request(
      net::TcpAddress{"127.0.0.1", port_},
      {.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}}, std::chrono::seconds(20));
  EXPECT_FALSE(plain && plain->status == 200);
}

TEST_F(PeopleSystem, RevokedAndExpiredTokensAreRefusedAndThoseOfSomebodyDisabled) {
  add_person("ada");
  const std::string revoked = token_for("ada");
  EXPECT_EQ(status(revoked, "GET", "/v1/whoami"), 200);
  EXPECT_EQ(divvy({"token", "revoke", token_id("ada")}).status, 0);
  const auto answer = call(revoked, "GET", "/v1/whoami");
  EXPECT_EQ(answer.status, 401);
  const std::string expiring = token_for("ada", "2s");
  ASSERT_TRUE(eventually([&] { return status(expiring, "GET", "/v1/whoami") == 401; }));
  EXPECT_EQ(call(expiring, "GET", "/v1/whoami").body, answer.body) << "in the same words";
  const std::string disabled = token_for("ada");
  EXPECT_EQ(status(disabled, "GET", "/v1/whoami"), 200);
  EXPECT_EQ(divvy({"user", "set", "ada", "--disable"}).status, 0);
  EXPECT_EQ(status(disabled, "GET", "/v1/whoami"), 401);
  // All of that holds over a restart.
  stop_daemon(SIGKILL);
  start_served();
  EXPECT_EQ(status(revoked, "GET", "/v1/whoami"), 401);
  EXPECT_EQ(status(disabled, "GET", "/v1/whoami"), 401);
}

TEST_F(PeopleSystem, AJobIsItsOwnersAndTheAdmins) {
  add_person("ada");
  ASSERT_EQ(divvy({"user", "add", "bob"}).status, 0);
  ASSERT_EQ(divvy({"user", "add", "eve", "--role", "admin"}).status, 0);
  const std::string ada = token_for("ada");
  const std::string bob = token_for("bob");
  const std::string eve = token_for("eve");
  const auto id = submit_as(ada, {{"gpu", 0.3},
                                  {"working_directory", "/"},
                                  {"grace", "5s"},
                                  {"environment", {{"SECRET", "hers"}}},
                                  {"command", {"sh", "-c", "id -u; exec sleep 1000"}}});
  ASSERT_TRUE(becomes(id, "running"));
  const std::string path = "/v1/jobs/" + std::to_string(id);
  // Bob sees that it is there, and no more.
  const auto outside = call(bob, "GET", path);
  EXPECT_EQ(outside.status, 200);
  EXPECT_FALSE(has(outside.body, "hers")) << outside.body;
  EXPECT_FALSE(has(call(bob, "GET", "/v1/jobs").body, "hers"));
  for (const auto& [method, what] : std::vector<std::pair<std::string, std::string>>{
           {"DELETE", ""}, {"POST", "/suspend"}, {"GET", "/logs"}, {"GET", "/attempts"}}) {
    const auto refused = call(bob, method, path + what);
    EXPECT_EQ(refused.status, 403) << method << what;
    EXPECT_EQ(refused.content_type, "application/problem+json");
  }
  EXPECT_EQ(status(bob, "GET", "/v1/people"), 403);
  EXPECT_EQ(call(bob, "POST", "/v1/tokens", R"({"user":"ada"})").status, 403);
  EXPECT_EQ(call(bob, "PUT", "/v1/quotas/bob", R"({"gpu": 100})").status, 403);
  EXPECT_EQ(call(bob, "POST", "/v1/backup", R"({"to": "/tmp/x"})").status, 403);
  // It runs as the user that its owner is.
  const uid_t uid = ::geteuid() == 0 ? kNobody : ::geteuid();
  EXPECT_TRUE(eventually(
      [&] { return call(ada, "GET", path + "/logs").body == std::to_string(uid) + "\n"; }));
  EXPECT_TRUE(has(call(eve, "GET", path).body, "hers"));
  EXPECT_EQ(status(eve, "DELETE", path), 200);
  EXPECT_TRUE(becomes(id, "cancelled"));
}

TEST_F(PeopleSystem, AServiceIsItsOwnersAndTheAdmins) {
  if (::access("/usr/sbin/haproxy", X_OK) != 0) {
    GTEST_SKIP() << "haproxy is not here (packages.txt has it)";
  }
  add_person("ada");
  ASSERT_EQ(divvy({"user", "add", "bob"}).status, 0);
  ASSERT_EQ(divvy({"user", "add", "eve", "--role", "admin"}).status, 0);
  const std::string ada = token_for("ada");
  const std::string bob = token_for("bob");
  const std::string eve = token_for("eve");
  // Its replicas never get ready; that is not what this is about.
  const auto made = call(
      ada, "POST", "/v1/services",
      json::serialize(json::object{{"name", "hers"},
                                   {"port", free_port()},
                                   {"job",
                                    {{"gpu", 0.1},
                                     {"working_directory", "/"},
                                     {"grace", "1s"},
                                     {"command", {"sh", "-c", "exec sleep 1000 # secret"}}}}}));
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_TRUE(has(made.body, "secret"));
  const auto outside = call(bob, "GET", "/v1/services/hers");
  EXPECT_EQ(outside.status, 200);
  EXPECT_FALSE(has(outside.body, "secret")) << outside.body;
  EXPECT_FALSE(has(call(bob, "GET", "/v1/services").body, "secret"));
  const std::string job = R"({"job": {"gpu": 0.1, "command": ["true"]}})";
  for (const auto& [method, what, body] :
       std::vector<std::array<std::string, 3>>{{"PATCH", "", R"({"replicas": {"least": 0}})"},
                                               {"POST", "/versions", job},
                                               {"POST", "/promote", ""},
                                               {"POST", "/rollback", ""},
                                               {"DELETE", "", ""}}) {
    EXPECT_EQ(call(bob, method, "/v1/services/hers" + what, body).status, 403) << method << what;
  }
  EXPECT_EQ(status(eve, "DELETE", "/v1/services/hers"), 200);
  EXPECT_TRUE(eventually([&] { return status(eve, "GET", "/v1/services/hers") == 404; }));
  EXPECT_TRUE(
      eventually([&] { return !fs::exists(folder() / "run" / "serve" / "own" / "haproxy.pid"); }));
}

TEST_F(PeopleSystem, EveryRouteAsksForThePermissionOfItsRow) {
  add_person("ada");
  ASSERT_EQ(divvy({"user", "add", "bob"}).status, 0);
  ASSERT_EQ(divvy({"user", "add", "eve", "--role", "admin"}).status, 0);
  const std::string ada = token_for("ada");
  const std::string bob = token_for("bob");
  const std::string eve = token_for("eve");
  using api::Permission;
  // Whether it was refused for who is asking; the rest of the request is nonsense.
  const auto refused = [](int status) { return status == 401 || status == 403; };
  for (const api::Route& route : api::routes()) {
    const auto id =
        submit_as(ada, {{"gpu", 0.1}, {"working_directory", "/"}, {"command", {"true"}}});
    const bool of_job = std::holds_alternative<api::JobHandler>(route.handler);
    std::string path(route.path);
    if (const std::size_t open = path.find('{'); open != std::string::npos) {
      path.replace(open, path.find('}') - open + 1, of_job ? std::to_string(id) : "nobody");
    }
    const std::string method(route.method);
    const Permission needed = route.needs.permission;
    EXPECT_EQ(status("", method, path) == 401, needed != Permission::kAnyone) << route.id;
    // Of those who may, an answer without an end would be waited for.
    const bool endless = route.described.answer == "text/event-stream";
    const auto expect = [&](const std::string& who, bool allowed) {
      if (allowed && endless) return;
      EXPECT_EQ(refused(status(who, method, path)), !allowed) << route.id;
    };
    const bool known = needed == Permission::kAnyone || needed == Permission::kKnown ||
                       needed == Permission::kOwn || needed == Permission::kSeeJob;
    const bool owner = needed == Permission::kLookInsideJob || needed == Permission::kChangeJob;
    expect(bob, known);
    expect(ada, known || owner || needed == Permission::kMachineUser);
    expect(eve, needed != Permission::kDaemonUser);
  }
  EXPECT_EQ(call(bob, "POST", "/v1/jobs/prune", R"({"everybody": true})").status, 403);
}

TEST_F(PeopleSystem, SecretsAreInNoLogAndInNoFile) {
  add_person("ada");
  const std::string token = token_for("ada");
  ASSERT_GT(token.size(), 20U);
  EXPECT_EQ(status(token, "GET", "/v1/whoami"), 200);
  EXPECT_EQ(status(token + "x", "GET", "/v1/whoami"), 401);
  const std::string secret = token.substr(token.size() - 16);
  const std::string backup = (folder() / "backup.db").string();
  EXPECT_EQ(ask("POST", "/v1/backup", json::serialize(json::object{{"to", backup}})).status, 200);
  EXPECT_FALSE(has(daemon_log(), secret));
  stop_daemon(SIGTERM);
  int looked_at = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    // What the command printed is the one place where it is meant to be.
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with("divvy-")) continue;
    if (name.starts_with("gpus")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(has(bytes, secret)) << entry.path();
    looked_at += name == "divvy.db" || name == "backup.db" ? 1 : 0;
  }
  EXPECT_EQ(looked_at, 2);
}

TEST_F(PeopleSystem, CommandsReachTheDaemonThroughAContext) {
  add_person("ada");
  const std::string file = (folder() / "token").string();
  ASSERT_EQ(divvy({"token", "create", "--user", "ada", "--to", file}).status, 0);
  identity_ = net::make_test_identity(folder(), "server", "127.0.0.1");
  stop_daemon(SIGTERM);
  start_served();
  const Outcome added =
      divvy({"context", "add", "lab", "--at", "https://127.0.0.1:" + std::to_string(port_), "--ca",
             identity_.certificate.string(), "--token-file", file});
  ASSERT_EQ(added.status, 0) << added.err;
  const Outcome who = divvy({"--context", "lab", "whoami"});
  EXPECT_TRUE(has(who.out, "ada")) << who.out << who.err;
  const Outcome ran = divvy(
      {"--context", "lab", "submit", "--follow", "--gpu", "0.3", "--cwd", "/", "--", "echo", "hi"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "hi\n")) << ran.out;
  EXPECT_EQ(divvy({"--context", "lab", "logs", "1"}).out, "hi\n");
  EXPECT_TRUE(has(divvy({"--context", "lab", "events", "--job", "1"}).out, "succeeded"));
  // What is of the machine where it is typed is not answered about this one instead.
  for (const char* command : {"gpus", "doctor"}) {
    const Outcome refused = divvy({"--context", "lab", command});
    EXPECT_EQ(refused.status, 2) << command;
    EXPECT_EQ(refused.out, "") << command;
    EXPECT_TRUE(has(refused.err, "log in on 127.0.0.1")) << refused.err;
  }
  // Who has no token, or believes in other authorities, gets nowhere.
  const std::string server = "https://127.0.0.1:" + std::to_string(port_);
  EXPECT_NE(divvy({"--server", server, "list"}).status, 0);
}

TEST_F(PeopleSystem, CommandsGoIntoAJobOverTheNetworkForItsOwnerOnly) {
  add_person("ada");
  const Outcome bob = divvy({"user", "add", "bob", "--uid", "65533"});
  ASSERT_EQ(bob.status, 0) << bob.err;
  const std::string ada_token = (folder() / "ada.token").string();
  const std::string bob_token = (folder() / "bob.token").string();
  ASSERT_EQ(divvy({"token", "create", "--user", "ada", "--to", ada_token}).status, 0);
  ASSERT_EQ(divvy({"token", "create", "--user", "bob", "--to", bob_token}).status, 0);
  identity_ = net::make_test_identity(folder(), "server", "127.0.0.1");
  stop_daemon(SIGTERM);
  start_served();
  for (const auto& [name, token] : {std::pair("ada", ada_token), std::pair("bob", bob_token)}) {
    const Outcome added =
        divvy({"context", "add", name, "--at", "https://127.0.0.1:" + std::to_string(port_), "--ca",
               identity_.certificate.string(), "--token-file", token});
    ASSERT_EQ(added.status, 0) << added.err;
  }
  const auto as_ada = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"--context", "ada"});
    return divvy(words);
  };
  const Outcome submitted = as_ada({"submit", "--gpu", "0.3", "--cwd", "/", "--", "sh", "-c",
                                    "echo one; echo two; exec sleep 1000"});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  ASSERT_TRUE(eventually([&] { return as_ada({"logs", "1"}).out == "one\ntwo\n"; }));
  EXPECT_EQ(as_ada({"logs", "1", "--tail", "1"}).out, "two\n");

  const Outcome inside =
      as_ada({"exec", "1", "-e", "MORE=yes", "--", "sh", "-c", "id -u; echo $MORE; exit 5"});
  EXPECT_EQ(inside.status, 5) << inside.err;
  EXPECT_EQ(inside.out, std::to_string(::geteuid() == 0 ? kNobody : ::geteuid()) + "\nyes\n");
  EXPECT_EQ(as_ada({"exec", "1", "--", "no-such-program"}).status, 127);
  // More than any buffer between here and there.
  EXPECT_EQ(as_ada({"exec", "1", "--", "head", "-c", "3000000", "/dev/zero"}).out.size(),
            3'000'000U);

  const fs::path in = folder() / "in";
  fs::create_directory(in);
  fs::permissions(in, fs::perms(0777));
  std::ofstream(folder() / "letter") << "dear";
  const Outcome copied_in = as_ada({"cp", (folder() / "letter").string(), "1:" + in.string()});
  EXPECT_EQ(copied_in.status, 0) << copied_in.err;
  const Outcome copied_out =
      as_ada({"cp", "1:" + (in / "letter").string(), (folder() / "answer").string()});
  EXPECT_EQ(copied_out.status, 0) << copied_out.err;
  std::string text;
  std::getline(std::ifstream(folder() / "answer"), text);
  EXPECT_EQ(text, "dear");

  for (const std::vector<std::string>& words : {std::vector<std::string>{"ps"},
                                                {"gpu", "list"},
                                                {"top", "--once"},
                                                {"events"},
                                                {"slice", "list"}}) {
    const Outcome shown = as_ada(words);
    EXPECT_EQ(shown.status, 0) << words.front() << ": " << shown.err;
  }
  EXPECT_TRUE(has(as_ada({"ps"}).out, "0.3"));

  // Somebody else's token opens none of it.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"exec", "1", "--", "true"},
                                                {"attach", "1"},
                                                {"port-forward", "1", ":80"},
                                                {"cp", "1:/etc/hostname", folder().string()},
                                                {"logs", "1"}}) {
    std::vector<std::string> all{"--context", "bob"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome refused = divvy(all);
    EXPECT_NE(refused.status, 0) << words.front();
    EXPECT_TRUE(has(refused.err, "ada")) << refused.err;
  }
  std::string token;
  std::getline(std::ifstream(bob_token), token);
  net::HttpTarget target;
  target.network = net::TcpAddress{"127.0.0.1", port_};
  target.tls = net::TlsTrust{identity_.certificate, "127.0.0.1"};
  const auto direct = net::http_upgrade(
      target,
      {.method = "GET",
       .path = "/v1/jobs/1/channels",
       .query = "channel=" + std::string(64, 'd'),
       .body = {},
       .headers = {{"authorization", "Bearer " + token}, {"upgrade", "websocket"}}},
      std::chrono::seconds(20));
  ASSERT_TRUE(direct.has_value()) << direct.error().message;
  EXPECT_EQ(direct->answer.status, 403);
  EXPECT_EQ(direct->tunnel, nullptr);
  const std::string channel(64, 'c');
  const std::string wish = R"({"kind":"exec","command":["true"],"channel":")" + channel + "\"}";
  const auto asked = [&](const std::string& who, const std::string& method, const std::string& path,
                         const std::string& query = {}) {
    net::HttpRequest request{.method = method, .path = path, .query = query, .body = wish};
    if (!who.empty()) request.headers["authorization"] = "Bearer " + who;
    const auto answer = net::http_request(target, request, std::chrono::seconds(20));
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer ? answer->status : 0;
  };
  EXPECT_EQ(asked(token, "POST", "/v1/jobs/1/channels"), 403);
  EXPECT_EQ(asked(token, "POST", "/v1/jobs/99/channels"), 404);
  EXPECT_EQ(asked("", "POST", "/v1/jobs/1/channels"), 401);
  EXPECT_EQ(asked(token, "GET", "/v1/jobs/1/channels", "channel=" + channel), 403)
      << "a name alone opens nothing";
}

// Whatever moment the daemon is killed in: each job that there is has the entry of its submit, with
// the token that it was done with.
TEST_F(PeopleSystem, NoJobIsThereWithoutItsEntryInTheAuditLog) {
  add_person("ada");
  const std::string token = token_for("ada");
  const std::string id = token_id("ada");
  const std::string job = R"({"name":"kept","gpu":"0","command":["true"]})";
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> asked = 0;
    std::thread client([&] {
      net::HttpTarget target;
      target.network = net::TcpAddress{"127.0.0.1", port_};
      target.tls = net::TlsTrust{identity_.certificate, "gpu.example"};
      const net::HttpRequest request{.method = "POST",
                                     .path = "/v1/jobs",
                                     .query = {},
                                     .body = job,
                                     .headers = {{"authorization", "Bearer " + token}}};
      // Until the daemon is gone.
      while (net::http_request(target, request, std::chrono::seconds(20))) ++asked;
    });
    EXPECT_TRUE(eventually([&] { return asked > 3 + round; }));
    stop_daemon(SIGKILL);
    client.join();
    start_served();
  }
  const json::value jobs = ask("GET", "/v1/jobs?name=kept&limit=1000").body.at("items");
  const json::value entries = ask("GET", "/v1/audit?action=submitJob&limit=1000").body.at("items");
  ASSERT_GT(jobs.as_array().size(), 15U);
  EXPECT_GE(entries.as_array().size(), jobs.as_array().size());
  std::set<std::string> made;
  for (const json::value& entry : entries.as_array()) {
    EXPECT_EQ(entry.at("user").as_string(), "ada");
    EXPECT_EQ(entry.at("from").as_string(), "127.0.0.1");
    EXPECT_EQ(entry.at("token").as_string(), id);
    made.emplace(entry.at("outcome").as_string());
  }
  // Those that were killed before their answer have no outcome: one in a round at most.
  int without = 0;
  for (const json::value& one : jobs.as_array()) {
    without += made.contains(fmt::format("/v1/jobs/{}", one.at("id").to_number<int>())) ? 0 : 1;
  }
  EXPECT_LE(without, 5);
  const std::string token_secret = token.substr(token.rfind('_') + 1);
  EXPECT_FALSE(has(divvy({"audit", "-o", "json"}).out, token_secret));
}

TEST_F(PeopleSystem, ANewCertificateIsTakenWithAReload) {
  add_person("ada");
  const std::string token = token_for("ada");
  EXPECT_EQ(status(token, "GET", "/v1/whoami"), 200);
  // The file is another one now, and only who believes in it gets in.
  identity_ = net::make_test_identity(folder(), "server", "gpu.example");
  ::kill(daemon_pid(), SIGHUP);
  EXPECT_TRUE(eventually([&] {
    net::HttpTarget target;
    target.network = net::TcpAddress{"127.0.0.1", port_};
    target.tls = net::TlsTrust{identity_.certificate, "gpu.example"};
    return net::http_request(target,
                             {.method = "GET", .path = "/v1/whoami", .query = {}, .body = {}},
                             std::chrono::seconds(20))
        .has_value();
  }));
}

}  // namespace
}  // namespace divvy::testing
