// The real HAProxy, started, asked, reloaded and ended by us.
#include "proxy/haproxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "base/temporary_folder.h"
#include "base/unique_fd.h"

namespace divvy::proxy {
namespace {

using namespace std::chrono_literals;

sockaddr_in local(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Answers every request with its own name; one for /held when it is let go.
class Origin {
 public:
  explicit Origin(std::string name) : name_(std::move(name)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = local(0);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 64), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Origin() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  void await_held() { held_.get_future().wait(); }
  void let_go() { go_.set_value(); }

 private:
  void serve() {
    for (;;) {
      const UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) return;
      char buffer[4096];
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got <= 0) continue;
      if (std::string_view(buffer, static_cast<std::size_t>(got)).starts_with("GET /held ")) {
        held_.set_value();
        go_.get_future().wait();
      }
      const std::string answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " +
                                 std::to_string(name_.size()) + "\r\n\r\n" + name_;
      (void)::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  std::string name_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::promise<void> held_;
  std::promise<void> go_;
  std::thread thread_;
};

std::uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = local(0);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// The body of the answer, or its first line where it is no 200.
std::string get(std::uint16_t port, std::string_view path = "/") {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Only a test that fails waits so long.
  const timeval most{60, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  const sockaddr_in to = local(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return "refused";
  const std::string question =
      "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  (void)::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (text.starts_with("HTTP/1.1 200")) return text.substr(text.find("\r\n\r\n") + 4);
  return text.substr(0, text.find("\r\n"));
}

class HaproxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status usable = proxy().usable(); !usable) GTEST_SKIP() << usable.error().message;
    // Other users are to get in.
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0711));
  }
  void TearDown() override { (void)proxy().apply({}); }

  // A new one each time, as after a restart of the daemon.
  [[nodiscard]] Haproxy proxy() const { return Haproxy({.folder = folder_.path() / "s"}); }

  Troubles apply(const std::vector<Site>& sites) const {
    const auto applied = proxy().apply(sites);
    EXPECT_TRUE(applied) << applied.error().message;
    return applied ? *applied : Troubles();
  }
  // Looks until it is so; only a test that fails looks so often.
  [[nodiscard]] bool sees(const std::function<bool(const Report&)>& what) const {
    for (int i = 0; i < 2000; ++i) {
      const auto report = proxy().report();
      if (report && what(*report)) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  [[nodiscard]] bool is_healthy(const std::string& server) const {
    return sees([&](const Report& report) {
      const auto site = report.find("model");
      return site != report.end() && site->second.servers.contains(server) &&
             site->second.servers.at(server).healthy;
    });
  }

  TemporaryFolder folder_;
  std::uint16_t port_ = free_port();
};

TEST_F(HaproxyTest, AServerGetsRequestsWhenItIsSaidSoAndNotBefore) {
  const Origin one("one");
  const Origin two("two");
  Site site{.name = "model",
            .port = port_,
            .ready = "/",
            .wait = 600s,
            .servers = {{"j1", one.port(), 0}}};
  EXPECT_TRUE(apply({site}).empty());
  ASSERT_TRUE(is_healthy("j1"));
  EXPECT_FALSE(proxy().report()->at("model").servers.at("j1").in_rotation);
  // It waits: nobody may be asked.
  std::string answer;
  std::thread client([&] { answer = get(port_); });
  EXPECT_TRUE(sees([](const Report& report) { return report.at("model").in_flight == 1; }));
  site.servers[0].weight = 256;
  EXPECT_TRUE(apply({site}).empty());
  client.join();
  EXPECT_EQ(answer, "one");
  // The other one takes over.
  site.servers.push_back({"j2", two.port(), 0});
  EXPECT_TRUE(apply({site}).empty());
  ASSERT_TRUE(is_healthy("j2"));
  site.servers = {{"j1", one.port(), 0}, {"j2", two.port(), 256}};
  EXPECT_TRUE(apply({site}).empty());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(port_), "two");
  site.servers = {{"j2", two.port(), 256}};
  EXPECT_TRUE(apply({site}).empty());
  EXPECT_EQ(proxy().report()->at("model").servers.size(), 1U);
}

TEST_F(HaproxyTest, AnotherServiceAndAnotherDaemonDisturbNobody) {
  const Origin one("one");
  const std::uint16_t other_port = free_port();
  const Site site{.name = "model",
                  .port = port_,
                  .ready = "/",
                  .wait = 600s,
                  .servers = {{"j1", one.port(), 256}}};
  const Site other{.name = "other", .port = other_port, .ready = "/", .wait = 1s, .servers = {}};
  EXPECT_TRUE(apply({site}).empty());
  ASSERT_TRUE(is_healthy("j1"));
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::thread client([&] {
    for (int i = 0; i < 20000 && !done; ++i) wrong += get(port_) == "one" ? 0 : 1;
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(apply({site, other}).empty());
    EXPECT_TRUE(apply({site}).empty());
  }
  done = true;
  client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(HaproxyTest, ARequestThatWaitsOutlivesAReload) {
  const Origin one("one");
  Site site{.name = "model", .port = port_, .ready = "/", .wait = 600s, .servers = {}};
  const Site other{.name = "other", .port = free_port(), .ready = "/", .wait = 1s, .servers = {}};
  EXPECT_TRUE(apply({site}).empty());
  std::string answer;
  std::thread client([&] { answer = get(port_); });
  EXPECT_TRUE(sees([](const Report& report) { return report.at("model").in_flight == 1; }));
  EXPECT_TRUE(apply({site, other}).empty());
  site.servers = {{"j1", one.port(), 256}};
  EXPECT_TRUE(apply({site, other}).empty());
  client.join();
  EXPECT_EQ(answer, "one");
}

TEST_F(HaproxyTest, APortThatIsTakenIsSaidAndHoldsUpNobodyElse) {
  const Origin one("one");
  const Site taken{.name = "taken", .port = one.port(), .ready = "/", .wait = 1s, .servers = {}};
  const Site site{.name = "model",
                  .port = port_,
                  .ready = "/",
                  .wait = 1s,
                  .servers = {{"j1", one.port(), 256}}};
  const Troubles troubles = apply({taken, site});
  ASSERT_EQ(troubles.size(), 1U);
  EXPECT_EQ(troubles.at("taken"),
            "port " + std::to_string(one.port()) + " is taken by another program");
  EXPECT_EQ(get(port_), "one");
}

TEST_F(HaproxyTest, WhileItsWorkerCannotBeAskedServicesGoOnAsTheyAre) {
  const Origin one("one");
  const Site site{.name = "model",
                  .port = port_,
                  .ready = "/",
                  .wait = 600s,
                  .servers = {{"j1", one.port(), 256}}};
  const Site other{.name = "other", .port = free_port(), .ready = "/", .wait = 1s, .servers = {}};
  EXPECT_TRUE(apply({site}).empty());
  ASSERT_TRUE(is_healthy("j1"));
  std::filesystem::remove(folder_.path() / "s/own/control.sock");
  const auto applied = proxy().apply({site, other});
  ASSERT_FALSE(applied);
  EXPECT_TRUE(applied.error().message.starts_with("haproxy does not answer"))
      << applied.error().message;
  EXPECT_EQ(get(port_), "one");
}

TEST_F(HaproxyTest, ARequestInFlightKeepsTheProcessAlsoWhenTheLastServiceGoes) {
  Origin one("one");
  const Site site{.name = "model",
                  .port = port_,
                  .ready = "/",
                  .wait = 600s,
                  .servers = {{"j1", one.port(), 256}}};
  EXPECT_TRUE(apply({site}).empty());
  ASSERT_TRUE(is_healthy("j1"));
  std::string answer;
  std::thread client([&] { answer = get(port_, "/held"); });
  one.await_held();
  EXPECT_TRUE(apply({}).empty());
  for (int i = 0; i < 20; ++i) {
    const auto report = proxy().report();
    EXPECT_FALSE(report && report->empty()) << "its replica would be ended";
  }
  one.let_go();
  client.join();
  EXPECT_EQ(answer, "one");
  EXPECT_TRUE(sees([](const Report& left) { return left.empty(); }));
}

TEST_F(HaproxyTest, OneThatWasKilledIsStartedAgainAlsoWhileItIsAZombie) {
  // Its parent, then, and we do not wait for it.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const Origin one("one");
  const Site site{.name = "model",
                  .port = port_,
                  .ready = "/",
                  .wait = 600s,
                  .servers = {{"j1", one.port(), 256}}};
  EXPECT_TRUE(apply({site}).empty());
  pid_t master = 0;
  std::ifstream(folder_.path() / "s/own/haproxy.pid") >> master;
  ASSERT_GT(master, 1);
  ASSERT_EQ(::kill(master, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(master), &info, WEXITED | WNOWAIT), 0);
  // Its worker ends by itself, and has the port until then.
  bool is_back = false;
  for (int i = 0; i < 2000 && !is_back; ++i) {
    const auto troubles = proxy().apply({site});
    is_back = troubles && troubles->empty();
    if (!is_back) std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(is_back);
  EXPECT_EQ(get(port_), "one");
  EXPECT_EQ(::waitpid(master, nullptr, 0), master);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(HaproxyTest, WithoutServicesThereIsNoProcess) {
  EXPECT_TRUE(
      apply({{.name = "model", .port = port_, .ready = "/", .wait = 1s, .servers = {}}}).empty());
  const auto report = proxy().report();
  EXPECT_TRUE(report) << report.error().message;
  EXPECT_TRUE(apply({}).empty());
  EXPECT_TRUE(sees([](const Report& left) { return left.empty(); }));
}

}  // namespace
}  // namespace divvy::proxy
