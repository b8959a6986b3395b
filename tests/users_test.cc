// Root's daemon and users of the machine who do not trust each other: what each may do, and what
// none can do to another. Needs root, to be several users.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "job_machine.h"
#include "ledger/ledger.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uid_t kAda = 65'534;
constexpr uid_t kBob = 2;  // bin, whom every machine has: jobs run as users with a name

class Users : public JobMachine {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to be several users";
    Machine::SetUp();
    install_for_others();
  }
  void TearDown() override {
    if (!folder().empty()) JobMachine::TearDown();
  }
  void start_with_people(const std::vector<std::string>& options = {}) {
    start_daemon(options);
    ASSERT_EQ(ask("POST", "/v1/people", R"({"name":"ada","uid":65534})").status, 201);
    ASSERT_EQ(ask("POST", "/v1/people", R"({"name":"bob","uid":2})").status, 201);
  }

  [[nodiscard]] std::vector<std::string> as(uid_t user, std::vector<std::string> arguments) const {
    std::vector<std::string> words = {"/usr/bin/setpriv", fmt::format("--reuid={}", user),
                                      fmt::format("--regid={}", user), "--clear-groups",
                                      (folder() / "bin/divvy").string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  Outcome divvy_as(uid_t user, const std::vector<std::string>& arguments) {
    return start(as(user, arguments), "divvy").finish();
  }
  // What somebody does who speaks with the API by themselves.
  static bool in_child_of(uid_t user, const std::function<bool()>& does) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(user) == 0 && ::setuid(user) == 0 && does() ? 0 : 1);
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
  }
  static bool listen_at(int fd, const fs::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
           ::listen(fd, 8) == 0;
  }
  static UniqueFd connect_stream(const fs::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    (void)::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    return fd;
  }
  // A job of theirs that runs.
  std::uint64_t running_job(uid_t user, const std::string& script) {
    const Outcome submitted = divvy_as(user, {"submit", "-o", "name", "-q", "--gpu", "0.3", "--cwd",
                                              "/", "--", "sh", "-c", script});
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    const std::uint64_t id = submitted.status == 0 ? std::stoull(submitted.out) : 0;
    EXPECT_TRUE(becomes(id, "running"));
    return id;
  }
};

TEST_F(Users, RefuseADaemonInAnotherUsersFolder) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const fs::path shared = folder() / "tmp";
  fs::create_directory(shared);
  ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
  const fs::path theirs = shared / "divvy-2";
  ASSERT_TRUE(in_child_of(kAda, [&] {
    return ::mkdir(theirs.c_str(), 0777) == 0 && listen_at(listener.get(), theirs / "divvyd.sock");
  }));
  environment_.push_back("DIVVY_RUN_DIR=" + theirs.string());
  std::erase(environment_, "DIVVY_RUN_DIR=" + (folder() / "run").string());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "--gpu", "0.3", "--", "/bin/echo", "ran"},
        {"submit", "--gpu", "0.3", "--env", "SECRET=x", "--", "true"},
        {"ps"}}) {
    const Outcome outcome = divvy_as(kBob, command);
    EXPECT_NE(outcome.status, 0) << command[0];
    EXPECT_EQ(outcome.out, "") << command[0];
    EXPECT_TRUE(has(outcome.err, "belongs to user 65534")) << outcome.err;
  }
  pollfd came{listener.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&came, 1, 0), 0) << "somebody spoke with it";
}

// Simulated GPUs of root's daemon are the machine's, for users whose environment says nothing of
// them.
TEST_F(Users, ShareTheSimulatedGpusOfRoot) {
  start_daemon_as({(folder() / "bin/divvyd").string()});
  ASSERT_EQ(ask("POST", "/v1/people", R"({"name":"ada","uid":65534})").status, 201);
  ASSERT_EQ(ask("POST", "/v1/people", R"({"name":"bob","uid":2})").status, 201);
  std::erase_if(environment_, [](const auto& entry) { return entry.starts_with("DIVVY_SIM_"); });
  const auto bytes_of = [](const std::string& report) {
    boost::system::error_code code;
    const json::value parsed = json::parse(report, code);
    EXPECT_FALSE(code) << report;
    return code ? 0 : parsed.at("families").at(0).at("bytes").to_number<std::uint64_t>();
  };
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  const std::string gpuload = (folder() / "bin/gpuload").string();
  for (const uid_t user : {kAda, kBob}) {
    const Outcome gpus = divvy_as(user, {"gpus"});
    EXPECT_EQ(gpus.status, 0) << gpus.err;
    EXPECT_TRUE(has(gpus.out, "H200")) << gpus.out;
    const Outcome doctor = divvy_as(user, {"doctor"});
    EXPECT_FALSE(has(doctor.out, "Install the NVIDIA driver")) << doctor.out;
    const Outcome ran = divvy_as(user, {"run", "--gpu", "0.3", "--gpu-mem", "4GiB", "--", gpuload,
                                        "alloc", "--chunk", "64MiB", "--exact"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_LE(bytes_of(ran.out), 4 * kGib);
    EXPECT_GE(bytes_of(ran.out), 3 * kGib);
    const Outcome submitted =
        divvy_as(user, {"submit", "-o", "name", "-q", "--gpu", "0.3", "--gpu-mem", "4GiB", "--cwd",
                        "/", "--", gpuload, "alloc", "--chunk", "64MiB", "--exact"});
    ASSERT_EQ(submitted.status, 0) << submitted.err;
    const auto id = std::stoull(submitted.out);
    const std::string logs = divvy_as(user, {"logs", "-f", std::to_string(id)}).out;
    ASSERT_TRUE(becomes(id, "succeeded")) << logs;
    EXPECT_LE(bytes_of(logs), 4 * kGib);
    EXPECT_GE(bytes_of(logs), 3 * kGib);
  }
  // On the same ones: what one holds the other sees.
  Program holder = start(as(kAda, {"run", "--gpu", "0.3", "--gpu-mem", "6GiB", "--", gpuload,
                                   "alloc", "--limit", "5GiB", "--hold-seconds", "600"}),
                         "holder");
  EXPECT_TRUE(eventually([&] {
    const json::object all = ask("GET", "/v1/tenants").body;
    for (const json::value& one : all.at("items").as_array()) {
      if (one.at("slices").at(0).at("memoryUsedBytes").to_number<std::uint64_t>() >= 5 * kGib) {
        return true;
      }
    }
    return false;
  }));
  holder.signal(SIGTERM);
  (void)holder.finish();
}

TEST_F(Users, EnterTheirOwnJobsAndNoOthers) {
  start_with_people();
  const std::string id = std::to_string(running_job(kAda, "echo ready; exec sleep 1000"));
  const Outcome inside = divvy_as(kAda, {"exec", id, "--", "id", "-u"});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_EQ(inside.out, "65534\n");
  fs::create_directory(folder() / "theirs");
  ASSERT_EQ(::chown((folder() / "theirs").c_str(), kAda, kAda), 0);
  const std::string place = (folder() / "theirs").string();
  const Outcome out = divvy_as(kAda, {"cp", id + ":/etc/hostname", place});
  EXPECT_EQ(out.status, 0) << out.err;
  EXPECT_TRUE(fs::exists(folder() / "theirs/hostname"));
  fs::create_directory(folder() / "theirs/in");
  ASSERT_EQ(::chown((folder() / "theirs/in").c_str(), kAda, kAda), 0);
  const Outcome in = divvy_as(kAda, {"cp", place + "/hostname", id + ":" + place + "/in"});
  EXPECT_EQ(in.status, 0) << in.err;
  EXPECT_TRUE(fs::exists(folder() / "theirs/in/hostname"));
  Program attached = start(as(kAda, {"attach", "--no-stdin", id}), "attach");
  EXPECT_NE(divvy_as(kBob, {"exec", id, "--", "id", "-u"}).status, 0);
  EXPECT_NE(divvy_as(kBob, {"attach", id}).status, 0);
  const Outcome forward = divvy_as(kBob, {"port-forward", id, ":80"});
  EXPECT_EQ(forward.status, 5) << forward.err;
  EXPECT_NE(divvy_as(kBob, {"cp", id + ":/etc/hostname", place}).status, 0);
  EXPECT_NE(divvy_as(kBob, {"delete", id}).status, 0);
  EXPECT_EQ(divvy_as(kAda, {"delete", id}).status, 0);
  EXPECT_EQ(attached.finish().status, 143) << "it saw the job to its end";
}

// What a tenant sends into a channel is parsed with that tenant's rights.
TEST_F(Users, RelaysOfChannelsHaveTheRightsOfTheJobsUserAndNoMore) {
  start_with_people({"--set", "api.keep_channels=60s"});
  const std::uint64_t id = running_job(kAda, "exec sleep 1000");
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(server.get(), 8), 0);
  ASSERT_EQ(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const Answer opened = ask("POST", fmt::format("/v1/jobs/{}/channels", id),
                            fmt::format(R"({{"channel":"{}","kind":"port","port":{}}})",
                                        std::string(64, 'a'), ntohs(address.sin_port)));
  ASSERT_EQ(opened.status, 201) << json::serialize(opened.body);

  // It runs in the folder of this machine, and nobody is its parent.
  fs::path relay;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream words(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(words), {}};
    if (has(line, std::string("--relay\0", 8) + (folder() / "run").string())) relay = entry.path();
  }
  ASSERT_FALSE(relay.empty());
  std::ifstream file(relay / "status");
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(has(status, "Uid:\t65534\t65534\t65534\t65534\n")) << status;
  EXPECT_TRUE(has(status, "Gid:\t65534\t65534\t65534\t65534\n")) << status;
  for (const char* const kind : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    EXPECT_TRUE(has(status, std::string(kind) + ":\t0000000000000000\n")) << status;
  }
  EXPECT_TRUE(has(status, "NoNewPrivs:\t1\n")) << status;
  // What it has open and in its environment is not for other processes of that user.
  EXPECT_FALSE(in_child_of(kAda, [&] {
    return UniqueFd(::open((relay / "environ").c_str(), O_RDONLY | O_CLOEXEC)) ||
           UniqueFd(::open((relay / "fd/2").c_str(), O_WRONLY | O_CLOEXEC));
  }));
  // Its socket is for its user and the daemon.
  fs::path socket;
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "run")) {
    if (entry.path().filename() == "relay") socket = entry.path();
  }
  ASSERT_FALSE(socket.empty());
  EXPECT_FALSE(in_child_of(kBob, [&] {
    const UniqueFd fd = connect_stream(socket);
    return ::send(fd.get(), "x", 1, MSG_NOSIGNAL) == 1;
  }));
}

// Any user may listen at the port where an app of somebody else is looked for.
TEST_F(Users, APortOfAJobIsNotAnothersWhoListensThere) {
  start_with_people();
  const std::uint64_t id = running_job(kAda, "exec sleep 1000");
  const auto open = [&](uid_t listener, char name) {
    ::setfsuid(listener);
    const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::setfsuid(0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(server.get(), 8), 0);
    EXPECT_EQ(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    Answer answer = ask("POST", fmt::format("/v1/jobs/{}/channels", id),
                        fmt::format(R"({{"channel":"{}","kind":"port","port":{}}})",
                                    std::string(64, name), ntohs(address.sin_port)));
    const UniqueFd caller(::accept(server.get(), nullptr, nullptr));
    EXPECT_EQ(static_cast<bool>(caller), answer.status == 201);
    return answer;
  };
  EXPECT_EQ(open(kAda, 'a').status, 201);
  EXPECT_EQ(open(0, 'b').status, 201) << "root publishes ports of containers";
  const Answer foreign = open(kBob, 'c');
  EXPECT_EQ(foreign.status, 403);
  EXPECT_TRUE(has(json::serialize(foreign.body), "is not the job's: a process of user 2 listens"))
      << json::serialize(foreign.body);
}

TEST_F(Users, CannotTakeTheNameOfAJob) {
  start_with_people();
  const Outcome run =
      divvy_as(kBob, {"run", "--name", "job-1.1.0", "--gpu", "0.1", "--", "/bin/true"});
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(has(run.err, "job-1.1.0 is a name as Divvy gives it")) << run.err;
  EXPECT_EQ(divvy_as(kBob, {"run", "--name", "1", "--gpu", "0.1", "--", "/bin/true"}).status, 2);
  EXPECT_NE(divvy_as(kBob, {"slice", "create", "job-99.1.0", "--gpu", "1"}).status, 0);
  EXPECT_EQ(ask("GET", "/v1/tenants").body.at("items").as_array().size(), 0U);
  const std::uint64_t id = running_job(kAda, "exec sleep 1000");
  // Nor change under the queue's hands what it holds, not even as its user.
  const std::string held = fmt::format("job-{}.1.0", id);
  EXPECT_NE(divvy_as(kAda, {"set", held, "--gpu", "0.9"}).status, 0);
  EXPECT_NE(divvy_as(kAda, {"slice", "delete", held}).status, 0);
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(tenants(), 1U);
}

// An earlier version let processes have such names.
TEST_F(Users, WhoHaveTheNameOfAJobInAnOldLedgerAreRenamed) {
  start_daemon();
  const json::object granted = grant(R"({"gpu":"0.1","name":"theirs"})");
  stop_daemon(SIGTERM);
  {
    const auto disk = sys::open_disk(folder() / "run/state");
    auto ledger = ledger::Ledger::open(*disk, sys::boot_id());
    ASSERT_TRUE(ledger.has_value()) << ledger.error().message;
    ASSERT_EQ((*ledger)->tenants().size(), 1U);
    ledger::TenantRecord record = (*ledger)->tenants().begin()->second;
    record.name = "job-2.1.0";  // The process itself is job 1
    ASSERT_TRUE((*ledger)->change(record).has_value());
  }
  start_with_people();
  EXPECT_EQ(tenant(granted.at("id").to_number<std::uint64_t>())->at("name").as_string(),
            "tenant-1");
  EXPECT_EQ(running_job(kAda, "exec sleep 1000"), 2U) << "job 2 has its name to itself";
}

TEST_F(Users, OneUsersIdleConnectionsDoNotBlockOthers) {
  start_with_people();
  std::vector<UniqueFd> held;
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(done[1]);
    if (::setgid(kAda) != 0 || ::setuid(kAda) != 0) ::_exit(9);
    for (int i = 0; i < 600; ++i) held.push_back(connect_stream(folder() / "run/divvyd.sock"));
    (void)!::write(ready[1], "x", 1);
    char byte = 0;
    (void)!::read(done[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const Outcome other = divvy_as(kBob, {"ps"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(divvy({"ps"}).status, 0);
  ::close(done[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], done[0]}) ::close(fd);
}

TEST_F(Users, MayHaveOnlySoManyJobsWaiting) {
  start_with_people({"--set", "queue.max_waiting_per_user=5", "--set", "queue.max_waiting=8"});
  const auto submit_as = [this](uid_t user, const std::string& array) {
    return divvy_as(user, {"submit", "-q", "--gpu", "1", "--cwd", "/", "--array", array, "--",
                           "sleep", "1000"});
  };
  const Outcome refused = submit_as(kAda, "1-6");
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "limit of 5")) << refused.err;
  EXPECT_EQ(submit_as(kAda, "1-5").status, 0);
  EXPECT_EQ(submit_as(kBob, "1-2").status, 0);
}

TEST_F(Users, AreToldThatTheDaemonIsStopped) {
  start_with_people();
  ASSERT_EQ(::kill(daemon_pid(), SIGSTOP), 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"submit", "--gpu", "0.3", "--", "true"},
        {"run", "--gpu", "0.3", "--wait", "--", "/bin/true"}}) {
    const Outcome outcome = divvy_as(kAda, command);
    EXPECT_EQ(outcome.status, 1) << command[0];
    EXPECT_TRUE(has(outcome.err, "it is stopped or overloaded")) << outcome.err;
  }
  ASSERT_EQ(::kill(daemon_pid(), SIGCONT), 0);
  EXPECT_EQ(divvy_as(kAda, {"ps"}).status, 0);
}

}  // namespace
}  // namespace divvy::testing
