// Services on the real daemon with the real HAProxy: requests go on while versions change, replicas
// die, the daemon is killed and their number goes up and down.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

sockaddr_in local(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// The body of the answer; "failed: ..." where there is none with 200.
std::string request(std::uint16_t port, const std::string& method = "GET") {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Only a test that fails waits so long.
  const timeval most{120, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  const sockaddr_in to = local(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    return "failed: not connected";
  }
  const std::string question =
      method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  if (::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return "failed: send";
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t body = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 200") || body == std::string::npos) {
    return "failed: " + text.substr(0, text.find("\r\n"));
  }
  return text.substr(body + 4);
}

// Somebody who asks again and again until it is told to stop.
class Client {
 public:
  Client(std::uint16_t port, std::string method) : port_(port), method_(std::move(method)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Client() { stop(); }
  // Until so many more requests were answered.
  void await(std::uint64_t requests) const {
    const std::uint64_t until = answered_ + requests;
    EXPECT_TRUE(eventually([&] { return answered_ >= until || stopped_; }));
  }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // When it has stopped: what was not answered with 200, and how often.
  [[nodiscard]] std::map<std::string, int> failures() const { return failures_; }
  [[nodiscard]] std::uint64_t answered() const { return answered_; }

 private:
  void run() {
    // Bounded by a number that only a test that hangs reaches.
    for (int i = 0; i < 1'000'000 && !stopping_; ++i) {
      const std::string answer = request(port_, method_);
      if (answer.starts_with("failed")) ++failures_[answer];
      ++answered_;
    }
    stopped_ = true;
  }

  std::uint16_t port_;
  std::string method_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> answered_ = 0;
  std::map<std::string, int> failures_;
  std::thread thread_;
};

const std::map<std::string, int> kNone;

class Serving : public JobMachine {
 protected:
  void SetUp() override {
    if (::access("/usr/sbin/haproxy", X_OK) != 0) {
      GTEST_SKIP() << "haproxy is not here (packages.txt has it)";
    }
    JobMachine::SetUp();
    // haproxy runs as a user of its own.
    std::filesystem::permissions(folder(), std::filesystem::perms(0711));
  }
  void TearDown() override {
    if (daemon_pid() > 0) {
      const json::value services = ask("GET", "/v1/services").body;
      for (const json::value& one : services.at("items").as_array()) {
        ask("DELETE", "/v1/services/" + std::string(one.at("name").as_string()));
      }
      EXPECT_TRUE(eventually(
          [&] { return ask("GET", "/v1/services").body.at("items").as_array().empty(); }));
      EXPECT_TRUE(eventually([&] {
        return !std::filesystem::exists(folder() / "run" / "serve" / "own" / "haproxy.pid");
      }));
    }
    JobMachine::TearDown();
  }

  Outcome serve(std::vector<std::string> options, const std::vector<std::string>& command) {
    std::vector<std::string> words = {"serve"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.emplace_back(HTTP_REPLICA_PROGRAM);
    words.insert(words.end(), command.begin(), command.end());
    return divvy(words);
  }
  // A service of so many replicas that are ready.
  void make(const std::string& replicas, std::vector<std::string> more = {}) {
    std::vector<std::string> options = {
        "model",   "--gpu",   "0.1",        "--port", fmt::to_string(port_),
        "--ready", "/health", "--replicas", replicas, "--grace",
        "2s",      "--wait"};
    options.insert(options.end(), more.begin(), more.end());
    const Outcome made = serve(options, {"one"});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  json::object service() { return ask("GET", "/v1/services/model").body; }
  std::int64_t number(const char* field) { return service().at(field).to_number<std::int64_t>(); }
  bool has_ready(std::int64_t replicas) {
    return eventually([&] {
      return number("readyReplicas") == replicas &&
             service().at("replicas").as_array().size() == static_cast<std::size_t>(replicas);
    });
  }
  void replace_daemon() {
    stop_daemon(SIGKILL);
    start_daemon();
  }

  std::uint16_t port_ = free_port();
};

TEST_F(Serving, NoRequestFailsWhileAnUpdateRunsAndTheDaemonIsKilledInIt) {
  start_daemon();
  make("3");
  Client reader(port_, "GET");
  Client writer(port_, "POST");
  reader.await(50);
  ASSERT_EQ(serve({"update", "model"}, {"two"}).status, 0);
  stop_daemon(SIGKILL);
  reader.await(100);
  writer.await(100);
  start_daemon();
  EXPECT_TRUE(eventually([&] { return number("stable") == 2; })) << json::serialize(service());
  EXPECT_TRUE(has_ready(3));
  reader.await(50);
  writer.await(50);
  EXPECT_TRUE(request(port_).starts_with("two "));
  reader.stop();
  writer.stop();
  EXPECT_EQ(reader.failures(), kNone);
  EXPECT_EQ(writer.failures(), kNone);
  RecordProperty("requests", std::to_string(reader.answered() + writer.answered()));
}

TEST_F(Serving, AReplicaThatIsKilledCostsNoRequestAndIsReplaced) {
  start_daemon();
  make("2");
  Client reader(port_, "GET");
  reader.await(50);
  for (int i = 0; i < 3; ++i) {
    const std::string answer = request(port_);
    ASSERT_TRUE(answer.starts_with("one ")) << answer;
    const pid_t victim = std::stoi(answer.substr(4));
    ASSERT_EQ(::kill(victim, SIGKILL), 0);
    reader.await(50);
    // The next one only when this one was seen: with none alive, requests in flight have nowhere to
    // go.
    EXPECT_TRUE(eventually([&] {
      const std::string events = json::serialize(service());
      int ends = 0;
      for (std::size_t at = 0; (at = events.find("ended by itself", at)) != std::string::npos;
           ++at) {
        ++ends;
      }
      return ends > i;
    }));
    EXPECT_TRUE(has_ready(2));
  }
  reader.stop();
  EXPECT_EQ(reader.failures(), kNone);
}

TEST_F(Serving, FromOneToFiveToNoneAndBackForARequestThatWaits) {
  start_daemon();
  make("1");
  Client reader(port_, "GET");
  Client writer(port_, "POST");
  ASSERT_EQ(divvy({"serve", "scale", "model", "--replicas", "5"}).status, 0);
  EXPECT_TRUE(has_ready(5)) << json::serialize(service());
  reader.await(50);
  // To none, while they ask: those that come later wait.
  ASSERT_EQ(divvy({"serve", "scale", "model", "--replicas", "0"}).status, 0);
  EXPECT_TRUE(has_ready(0));
  ASSERT_EQ(divvy({"serve", "scale", "model", "--replicas", "1"}).status, 0);
  EXPECT_TRUE(has_ready(1));
  reader.await(50);
  writer.await(50);
  // By itself, when nobody asks, and back with the first request.
  reader.stop();
  writer.stop();
  EXPECT_EQ(reader.failures(), kNone);
  EXPECT_EQ(writer.failures(), kNone);
  ASSERT_EQ(divvy({"serve", "scale", "model", "--replicas", "0..5", "--idle", "1s", "--calm", "1s"})
                .status,
            0);
  EXPECT_TRUE(has_ready(0));
  EXPECT_EQ(service().at("state").as_string(), "asleep");
  EXPECT_TRUE(request(port_).starts_with("one "));
  EXPECT_TRUE(has_ready(0)) << "and to sleep again";
  // Also where the daemon is away when the request comes.
  stop_daemon(SIGKILL);
  std::string answer;
  std::thread waits([&] { answer = request(port_, "POST"); });
  start_daemon();
  waits.join();
  EXPECT_TRUE(answer.starts_with("one ")) << answer;
}

TEST_F(Serving, AVersionThatDoesNotGetReadyIsTakenBackAndNobodyNotices) {
  start_daemon();
  make("2");
  Client reader(port_, "GET");
  EXPECT_EQ(divvy({"serve", "scale", "model", "--ready-within", "1s"}).status, 0);
  const Outcome sick = serve({"update", "model", "--wait"}, {"two", "sick"});
  EXPECT_EQ(sick.status, 1);
  EXPECT_TRUE(has(sick.err, "version 2 was taken back: ")) << sick.err;
  EXPECT_TRUE(has(sick.err, "/health did not answer")) << sick.err;
  EXPECT_EQ(divvy({"serve", "scale", "model", "--ready-within", "5m"}).status, 0);
  const Outcome gone = serve({"update", "model", "--wait"}, {"three", "gone"});
  EXPECT_EQ(gone.status, 1);
  EXPECT_TRUE(has(gone.err, "ended 3 times by themselves")) << gone.err;
  EXPECT_TRUE(has_ready(2));
  reader.stop();
  EXPECT_EQ(reader.failures(), kNone);
  const Outcome history = divvy({"serve", "history", "model"});
  EXPECT_TRUE(has(history.out, "rejected")) << history.out;
  EXPECT_TRUE(has(history.out, "version 3 is taken back, and version 1 goes on")) << history.out;
}

TEST_F(Serving, ACanaryGetsItsPartUntilItIsPromotedOrTakenBack) {
  start_daemon();
  make("2");
  const auto words = [&](int requests) {
    std::map<std::string, int> seen;
    for (int i = 0; i < requests; ++i) {
      const std::string answer = request(port_);
      ++seen[answer.substr(0, answer.find(' '))];
    }
    return seen;
  };
  const auto ready = [&](std::size_t version) {
    return service().at("versions").at(version).at("readyReplicas").to_number<int>();
  };
  ASSERT_EQ(serve({"update", "model", "--weight", "30", "--wait"}, {"two"}).status, 0);
  EXPECT_EQ(ready(1), 1) << "it was waited for";
  EXPECT_TRUE(eventually([&] { return ready(1) == 1 && ready(0) == 1; }))
      << json::serialize(service());
  const auto canary = words(400);
  EXPECT_GT(canary.at("one"), canary.at("two"));
  EXPECT_GT(canary.at("two"), 0);
  EXPECT_EQ(number("stable"), 1) << "it stays";
  ASSERT_EQ(divvy({"serve", "promote", "model"}).status, 0);
  EXPECT_TRUE(eventually([&] { return number("stable") == 2; }));
  EXPECT_TRUE(has_ready(2));
  EXPECT_EQ(words(20), (std::map<std::string, int>{{"two", 20}}));
  const Outcome back = divvy({"serve", "rollback", "model"});
  EXPECT_EQ(back.out, "model goes back to version 1\n");
  EXPECT_TRUE(eventually([&] { return number("stable") == 1; }));
  EXPECT_TRUE(has_ready(2));
  EXPECT_EQ(words(20), (std::map<std::string, int>{{"one", 20}}));
}

TEST_F(Serving, CommandsSayWhatThereIsAndWhatIsWrong) {
  start_daemon();
  make("1");
  const Outcome list = divvy({"serve", "list"});
  EXPECT_TRUE(has(list.out, "NAME   STATE  READY   VERSION  ADDRESS")) << list.out;
  EXPECT_TRUE(has(list.out, fmt::format("http://127.0.0.1:{}", port_))) << list.out;
  const Outcome get = divvy({"serve", "get", "model"});
  EXPECT_TRUE(has(get.out, "1 of 1 ready; 1 replica")) << get.out;
  EXPECT_EQ(serve({"model", "--port", "8001", "--gpu", "0.1"}, {"x"}).status, 1);
  const Outcome taken = serve({"other", "--port", fmt::to_string(port_), "--gpu", "0.1"}, {"x"});
  EXPECT_TRUE(has(taken.err, "there is a service model at port")) << taken.err;
  EXPECT_EQ(serve({"other", "--port", "80", "--gpu", "0.1"}, {"x"}).status, 2);
  EXPECT_EQ(serve({"scale", "--port", "8001"}, {"x"}).status, 2) << "a word of the command";
  EXPECT_EQ(divvy({"serve", "get", "nobody"}).status, 3);
  EXPECT_EQ(divvy({"serve", "promote", "model"}).status, 1) << "there is nothing to promote";
  EXPECT_EQ(divvy({"serve", "scale", "model", "--replicas", "5..1"}).status, 2);
  EXPECT_EQ(divvy({"serve", "scale", "model", "--replicas", "many"}).status, 2);
  EXPECT_EQ(divvy({"serve", "update", "model"}).status, 2) << "nothing is new";
  const Outcome logs = divvy({"logs", "model"});
  EXPECT_EQ(logs.status, 0) << "a replica is a job: " << logs.err;
  EXPECT_EQ(divvy({"serve", "delete", "model"}).status, 0);
  EXPECT_TRUE(eventually([&] { return divvy({"serve", "get", "model"}).status == 3; }));
}

}  // namespace
}  // namespace divvy::testing
