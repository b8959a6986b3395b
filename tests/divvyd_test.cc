// The real divvyd on two simulated GPUs, spoken to over its sockets: who is granted what, what
// happens when processes and the daemon itself die, and what garbage does (nothing).
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "divvyd_machine.h"
#include "sys/packet_socket.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

std::uint64_t id_of(const json::object& tenant) {
  return tenant.at("id").to_number<std::uint64_t>();
}

std::string socket_of(const json::object& grant) {
  return std::string(grant.at("environment").at("DIVVY_SOCKET").as_string());
}

std::uint64_t used_by(const json::object& tenant) {
  return tenant.at("slices").at(0).at("memoryUsedBytes").to_number<std::uint64_t>();
}

// A process that registers and then waits to be killed.
pid_t start_registered(const std::string& socket, std::uint64_t used) {
  int ready[2];
  EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FakeProcess process(socket);
    if (!process.join() || process.refused()) ::_exit(1);
    process.used(0).store(used);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the process did not register";
  ::close(ready[0]);
  return child;
}

void kill_and_collect(pid_t pid) {
  ASSERT_GT(pid, 0);  // Minus one would mean every process there is
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

class Divvyd : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }
};

TEST_F(Divvyd, GrantsUntilAGpuIsFullAndSaysWhoHoldsIt) {
  const json::object first = grant(R"({"gpu":"0.6","devices":["0"],"name":"first"})");
  EXPECT_EQ(first.at("slices").at(0).at("shareThousandths").as_int64(), 600);
  const Answer refused = ask("POST", "/v1/tenants", R"({"gpu":"0.6","devices":["0"]})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body.at("gpus").at(0).at("holders").at(0).at("tenant").as_string(), "first");
  EXPECT_EQ(ask("DELETE", "/v1/tenants/first").status, 200);
  grant(R"({"gpu":"0.6","devices":["0"]})");
}

TEST_F(Divvyd, RefusesNonsenseInOneSentence) {
  for (const char* body :
       {"", "{", "[]", R"({"gpu":0.3})", R"({"gpu":"0"})", R"({"gpu":"-1"})", R"({"gpu":"much"})",
        R"({"gpu":"0.3","memory":"0"})", R"({"gpu":"0.3","class":"royal"})",
        R"({"gpu":"0.3","mode":"magic"})", R"({"gpu":"0.3","nmae":"x"})", R"({})",
        R"({"gpu":"0.3","name":"../etc"})", R"({"gpu":"0.3","devices":"0"})"}) {
    const Answer answer = ask("POST", "/v1/tenants", body);
    EXPECT_EQ(answer.status, 400) << body << json::serialize(answer.body);
    EXPECT_FALSE(answer.body.at("detail").as_string().empty()) << body;
  }
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"0.3","devices":["7"]})").status, 404);
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"3"})").status, 422);
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"0.5","memory":"500GiB"})").status, 422);
  EXPECT_EQ(ask("GET", "/v1/nothing").status, 404);
  EXPECT_EQ(ask("PUT", "/v1/tenants").status, 405);
  EXPECT_EQ(ask("PATCH", "/v1/tenants/99", R"({"gpu":"0.5"})").status, 404);
}

TEST_F(Divvyd, CountsWhatProcessesUseAndForgetsThoseWhoDie) {
  const json::object granted = grant(R"({"gpu":"0.5"})");
  const pid_t one = start_registered(socket_of(granted), 100 * kMebibyte);
  const pid_t two = start_registered(socket_of(granted), 20 * kMebibyte);
  EXPECT_EQ(used_by(*tenant(id_of(granted))), 120 * kMebibyte);
  kill_and_collect(one);
  EXPECT_TRUE(eventually([&] { return used_by(*tenant(id_of(granted))) == 20 * kMebibyte; }));
  // Its slot is given to the next one, with nothing in it.
  FakeProcess three(socket_of(granted));
  ASSERT_TRUE(three.join());
  EXPECT_EQ(three.welcome().slot, 0U);
  EXPECT_EQ(three.used(0).load(), 0U);
  EXPECT_EQ(three.welcome().generation % 2, 1U);
  kill_and_collect(two);
}

TEST_F(Divvyd, EndsATenantWithItsLastProcess) {
  int ids[2];
  ASSERT_EQ(::pipe2(ids, O_CLOEXEC), 0);
  // The root process asks, starts another that registers, and goes.
  const pid_t root = ::fork();
  if (root == 0) {
    const json::object granted = grant(R"({"gpu":"0.5"})");
    const std::uint64_t id = id_of(granted);
    const pid_t worker = start_registered(socket_of(granted), kMebibyte);
    (void)!::write(ids[1], &id, sizeof id);
    (void)!::write(ids[1], &worker, sizeof worker);
    ::_exit(0);
  }
  std::uint64_t id = 0;
  pid_t worker = 0;
  ASSERT_EQ(::read(ids[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ASSERT_EQ(::read(ids[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::waitpid(root, nullptr, 0);
  EXPECT_TRUE(tenant(id).has_value());
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !tenant(id).has_value(); }));
}

TEST_F(Divvyd, DoesNotReleaseASliceThatIsInUse) {
  // A real program with the real shim, so that what is refused is what would be overbooked.
  Program load = start_divvy({"run", "--name", "busy", "--gpu", "0.6", "--device", "0", "--",
                              GPULOAD_PROGRAM, "spin", "--seconds", "600"},
                             "busy");
  ASSERT_TRUE(eventually([&] {
    const Answer answer = ask("GET", "/v1/tenants/busy");
    return answer.status == 200 && !answer.body.at("processes").as_array().empty();
  }));
  const Answer refused = ask("DELETE", "/v1/tenants/busy");
  EXPECT_EQ(refused.status, 409);
  const std::string why(refused.body.at("detail").as_string());
  EXPECT_NE(why.find(fmt::format("busy has 1 process(es) that use its GPU (pid {})", load.pid())),
            std::string::npos)
      << why;
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"0.6","devices":["0"]})").status, 409)
      << "the slice is still taken";
  EXPECT_EQ(ask("GET", "/v1/tenants/busy").body.at("processes").as_array().size(), 1U);

  // It ends with its last process by itself, so nothing may be left to release.
  load.signal(SIGKILL);
  (void)load.finish();
  const int status = ask("DELETE", "/v1/tenants/busy").status;
  EXPECT_TRUE(status == 404 || status == 200) << status;
  grant(R"({"gpu":"0.6","devices":["0"]})");
}

TEST_F(Divvyd, DoesNotReleaseASliceWhoseProcessesMayComeBack) {
  const json::object granted = grant(R"({"gpu":"0.6","name":"mine"})");
  FakeProcess process(socket_of(granted));
  ASSERT_TRUE(process.join());
  stop_daemon(SIGKILL);
  start_daemon();
  const Answer early = ask("DELETE", "/v1/tenants/mine");
  EXPECT_EQ(early.status, 409);
  EXPECT_NE(early.body.at("detail").as_string().find("may still come back"), std::string::npos);
  ASSERT_TRUE(process.join());
  EXPECT_EQ(ask("DELETE", "/v1/tenants/mine").status, 409);
}

TEST_F(Divvyd, FindsTenantsAgainAfterItWasKilled) {
  const json::object granted = grant(R"({"gpu":"0.5","memory":"10GiB","name":"survivor"})");
  FakeProcess process(socket_of(granted));
  ASSERT_TRUE(process.join());
  process.used(0).store(64 * kMebibyte);
  const pid_t doomed = start_registered(socket_of(granted), 32 * kMebibyte);
  stop_daemon(SIGKILL);
  kill_and_collect(doomed);

  start_daemon();
  const auto found = tenant(id_of(granted));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->at("name").as_string(), "survivor");
  const std::uint32_t slot = process.welcome().slot;
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused()) << process.welcome().reason;
  EXPECT_EQ(process.welcome().slot, slot);
  // Its own memory is still counted, that of the one that died meanwhile is not.
  EXPECT_EQ(used_by(*tenant(id_of(granted))), 64 * kMebibyte);
  // Who comes new shares the page that was brought back.
  const pid_t late = start_registered(socket_of(granted), 8 * kMebibyte);
  EXPECT_EQ(used_by(*tenant(id_of(granted))), 72 * kMebibyte);
  kill_and_collect(late);
  // The slice is still taken.
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"2"})").status, 409);
}

TEST_F(Divvyd, ReleasesTenantsWhoseProcessesAreGoneWhenItStarts) {
  const pid_t root = ::fork();
  if (root == 0) {
    grant(R"({"gpu":"0.5","name":"gone"})");
    for (;;) ::pause();
  }
  ASSERT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/gone").status == 200; }));
  stop_daemon(SIGTERM);
  kill_and_collect(root);
  start_daemon();
  EXPECT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/gone").status == 404; }));
}

TEST_F(Divvyd, ReplacesAKeeperThatWasKilled) {
  const auto keeper = [this]() -> pid_t {
    std::ifstream children(fmt::format("/proc/{}/task/{}/children", daemon_pid(), daemon_pid()));
    pid_t pid = 0;
    children >> pid;
    return pid;
  };
  const pid_t first = keeper();
  if (first == 0) GTEST_SKIP() << "this kernel does not list children";
  ::kill(first, SIGKILL);
  // The next one is forked by another thread, so it is looked for among all threads' children.
  EXPECT_TRUE(eventually([&] {
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", daemon_pid()))) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid = 0; children >> pid;) {
        if (pid != first) return true;
      }
    }
    return false;
  }));
  grant(R"({"gpu":"0.5"})");
}

TEST_F(Divvyd, SurvivesMalformedMessagesOnATenantsSocket) {
  const json::object victim = grant(R"({"gpu":"0.3"})");
  FakeProcess good(socket_of(victim));
  ASSERT_TRUE(good.join());
  good.used(0).store(5 * kMebibyte);
  const json::object hostile = grant(R"({"gpu":"0.3"})");
  const std::string path = socket_of(hostile);

  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const UniqueFd socket = connect_to(path);
    ASSERT_TRUE(socket);
    std::vector<std::byte> bytes(random() % 2000);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (bytes.size() >= 8 && round % 2 == 0) {
      const std::uint32_t head[] = {static_cast<std::uint32_t>(random() % 7),
                                    static_cast<std::uint32_t>(bytes.size())};
      std::memcpy(bytes.data(), head, sizeof head);
    }
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::vector<int> fds(random() % 4, null.get());
    (void)sys::send_packet(socket.get(), bytes, fds);
  }
  // A Hello with pages that are none: a file, a short one, an unsealed one.
  wire::Hello hello{};
  hello.header = {static_cast<std::uint32_t>(wire::Kind::kHello), sizeof hello};
  hello.version = wire::kWireVersion;
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, wire::kLanesBytes}) {
    const UniqueFd socket = connect_to(path);
    const UniqueFd page(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(page.get(), static_cast<off_t>(size)), 0);
    const int fds[] = {page.get()};
    ASSERT_TRUE(sys::send_message(socket.get(), hello, fds));
    wire::Welcome answer{};
    ASSERT_EQ(::recv(socket.get(), &answer, sizeof answer, 0), static_cast<ssize_t>(sizeof answer));
    EXPECT_EQ(answer.refusal, static_cast<std::uint32_t>(wire::Refusal::kMalformed));
  }
  // Connections that say nothing, more than a tenant may have.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(connect_to(path));

  EXPECT_EQ(used_by(*tenant(id_of(victim))), 5 * kMebibyte);
  const auto measured = good.measure(0);
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(measured->serial, 7U);
  FakeProcess another(socket_of(victim));
  EXPECT_TRUE(another.join());
}

TEST_F(Divvyd, ATenantThatLiesOnItsPageHurtsOnlyItself) {
  const json::object liar = grant(R"({"gpu":"0.3"})");
  FakeProcess process(socket_of(liar));
  ASSERT_TRUE(process.join());
  std::memset(static_cast<void*>(&process.account()), 0xff, wire::kAccountBytes);
  EXPECT_GT(used_by(*tenant(id_of(liar))), 0U);
  const json::object other = grant(R"({"gpu":"0.3"})");
  FakeProcess good(socket_of(other));
  ASSERT_TRUE(good.join());
  EXPECT_EQ(used_by(*tenant(id_of(other))), 0U);
  // The control page cannot be written by who was given it.
  EXPECT_EQ(::mmap(nullptr, wire::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                   good.control_fd(), 0),
            MAP_FAILED);
}

TEST_F(Divvyd, RefusesAnotherVersionOfTheShim) {
  const json::object granted = grant(R"({"gpu":"0.3"})");
  const UniqueFd socket = connect_to(socket_of(granted));
  wire::Hello hello{};
  hello.header = {static_cast<std::uint32_t>(wire::Kind::kHello), sizeof hello};
  hello.version = 77;
  ASSERT_TRUE(sys::send_message(socket.get(), hello));
  wire::Welcome answer{};
  ASSERT_EQ(::recv(socket.get(), &answer, sizeof answer, 0), static_cast<ssize_t>(sizeof answer));
  EXPECT_EQ(answer.refusal, static_cast<std::uint32_t>(wire::Refusal::kVersion));
  EXPECT_NE(std::string(answer.reason).find("77"), std::string::npos);
}

TEST_F(Divvyd, ASecondOneInTheSameFolderExplainsAndEnds) {
  const Outcome second = start({DIVVYD_PROGRAM}, "second").finish();
  EXPECT_EQ(second.status, 3);
  EXPECT_NE(second.err.find(fmt::format("pid {}", daemon_pid())), std::string::npos) << second.err;
  const Outcome background = start({DIVVYD_PROGRAM, "--background"}, "second").finish();
  EXPECT_EQ(background.status, 3);
  EXPECT_NE(background.err.find("already"), std::string::npos) << background.err;
}

TEST_F(Divvyd, OnlyTheOwnerChangesATenant) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  grant(R"({"gpu":"0.3","name":"mine"})");
  std::filesystem::permissions(folder(), std::filesystem::perms(0711));
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    const bool denied = ask("PATCH", "/v1/tenants/mine", R"({"gpu":"0.1"})").status == 403 &&
                        ask("DELETE", "/v1/tenants/mine").status == 403 &&
                        ask("GET", "/v1/tenants/mine").status == 200 &&
                        ask("POST", "/v1/tenants", R"({"gpu":"0.1"})").status == 201;
    ::_exit(denied ? 0 : 1);
  }
  int status = 0;
  ::waitpid(stranger, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace divvy::testing
