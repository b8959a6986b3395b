// Messages about jobs that have ended, from the real daemon to a receiver of the test.
#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <mutex>

#include "job_machine.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

constexpr const char* kSecret = "s3cr3tKey0815";

class NotificationsSystem : public JobMachine {
 protected:
  struct Got {
    std::string id;
    json::object body;
  };

  void SetUp() override {
    Machine::SetUp();
    listen(0);
    start_daemon();
  }
  // Answers everything with `status_`.
  void listen(std::uint16_t port) {
    net::HttpServerOptions options;
    options.network = net::TcpAddress{"127.0.0.1", port};
    auto made = net::HttpServer::create(
        options, [this](const net::HttpRequest& request, const net::Caller&) {
          const std::lock_guard lock(mutex_);
          got_.push_back({std::string(request.header("idempotency-key")),
                          json::parse(request.body).as_object()});
          return net::HttpResponse{.status = status_, .body = ""};
        });
    ASSERT_TRUE(made.has_value()) << made.error().message;
    receiver_ = *std::move(made);
    port_ = receiver_->port();
  }
  [[nodiscard]] std::vector<Got> got() {
    const std::lock_guard lock(mutex_);
    return got_;
  }
  void answer_with(int status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  [[nodiscard]] std::string url() const {
    return fmt::format("http://ada:{0}@127.0.0.1:{1}/hook?key={0}", kSecret, port_);
  }
  [[nodiscard]] json::object told(json::object job) const {
    job["notify"] = json::object{{"url", url()}};
    return job;
  }

  std::mutex mutex_;
  std::vector<Got> got_;
  int status_ = 200;
  std::uint16_t port_ = 0;
  std::unique_ptr<net::HttpServer> receiver_;
};

TEST_F(NotificationsSystem, AReceiverIsToldHowAJobEnded) {
  const Outcome submitted =
      divvy({"submit", "--notify", url(), "-o", "name", "-q", "--gpu", "0.3", "--name", "train",
             "--cwd", "/", "--env", "WORD=" + std::string(kSecret), "--", "sh", "-c", "exit 3"});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  const std::uint64_t id = std::stoull(submitted.out);
  ASSERT_TRUE(eventually([&] { return !got().empty(); }));
  const json::object body = got()[0].body;
  EXPECT_EQ(body.at("id").to_number<std::uint64_t>(), id);
  EXPECT_EQ(body.at("name"), "train");
  EXPECT_EQ(body.at("state"), "failed");
  EXPECT_EQ(body.at("exitCode"), 3);
  EXPECT_EQ(body.at("attempt"), 1);
  EXPECT_EQ(body.at("endedUnixMilliseconds"), job(id).at("endedUnixMilliseconds"));
  EXPECT_FALSE(has(json::serialize(body), kSecret));
  const Outcome described = divvy({"describe", std::to_string(id)});
  EXPECT_TRUE(has(described.out, fmt::format("http://127.0.0.1:{}/hook?... when succeeded, failed, "
                                             "cancelled",
                                             port_)))
      << described.out;
  EXPECT_FALSE(has(described.out, kSecret)) << described.out;
  EXPECT_FALSE(has(daemon_log(), kSecret));
}

TEST_F(NotificationsSystem, KilledBetweenEndAndMessageTheDaemonSendsItWhenItIsBack) {
  // While nobody listens, messages stay.
  receiver_.reset();
  const std::uint64_t failed = submit(told(gated("first", 0.3, 5)));
  const std::uint64_t cancelled = submit(told(waiting("second")));
  ASSERT_TRUE(becomes(failed, "running") && becomes(cancelled, "running"));
  open_gate("first");
  ASSERT_EQ(divvy({"delete", std::to_string(cancelled)}).status, 0);
  ASSERT_TRUE(becomes(failed, "failed") && becomes(cancelled, "cancelled"));
  EXPECT_FALSE(has(daemon_log(), kSecret));
  stop_daemon(SIGKILL);
  listen(port_);
  start_daemon();
  const auto states = [this] {
    std::map<std::uint64_t, std::string> found;
    for (const Got& one : got()) {
      found[one.body.at("id").to_number<std::uint64_t>()] =
          std::string(one.body.at("state").as_string());
    }
    return found;
  };
  EXPECT_TRUE(eventually([&] { return states().size() == 2; }));
  EXPECT_EQ(states()[failed], "failed");
  EXPECT_EQ(states()[cancelled], "cancelled");
}

TEST_F(NotificationsSystem, ARepeatedMessageHasTheIdOfTheFirstAlsoAfterAKill) {
  answer_with(500);
  json::object job = told(waiting("job"));
  job["command"] = json::array{"true"};
  const std::uint64_t id = submit(job);
  ASSERT_TRUE(becomes(id, "succeeded"));
  ASSERT_TRUE(eventually([&] { return !got().empty(); }));
  stop_daemon(SIGKILL);
  answer_with(200);
  const std::size_t before = got().size();
  start_daemon();
  ASSERT_TRUE(eventually([&] { return got().size() > before; }));
  for (const Got& one : got()) {
    EXPECT_EQ(one.id, got()[0].id);
    EXPECT_EQ(one.body, got()[0].body);
  }
}

TEST_F(NotificationsSystem, OneMessageForEachTaskOfAnArrayAndNoneForEndsNobodyAskedFor) {
  json::object array = told(waiting("array", 0.1));
  array["command"] = json::array{"true"};
  array["array"] = json::object{{"first", 0}, {"last", 3}};
  array["notify"].as_object()["on"] = json::array{"succeeded"};
  const std::uint64_t first = submit(array);
  json::object failing = told(waiting("failing", 0.1));
  failing["command"] = json::array{"false"};
  failing["notify"].as_object()["on"] = json::array{"succeeded"};
  ASSERT_TRUE(becomes(submit(failing), "failed"));
  std::set<std::uint64_t> told_of;
  EXPECT_TRUE(eventually([&] {
    for (const Got& one : got()) told_of.insert(one.body.at("id").to_number<std::uint64_t>());
    return told_of.size() == 4;
  }));
  EXPECT_EQ(*told_of.begin(), first);
  EXPECT_EQ(*told_of.rbegin(), first + 3);
}

TEST_F(NotificationsSystem, WhatTheOperatorDoesNotAllowIsRefusedAtSubmit) {
  stop_daemon(SIGTERM);
  start_daemon({"--set", "notifications.allowed_hosts=[hooks.example]"});
  const Outcome refused = divvy({"submit", "--notify", url(), "--", "true"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(has(refused.err, "no messages are sent to 127.0.0.1 from here")) << refused.err;
  EXPECT_FALSE(has(refused.err, kSecret)) << refused.err;
  const Outcome wrong = divvy({"submit", "--notify", "file:///etc/passwd", "--", "true"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(has(wrong.err, "notify.url: it has to begin with https:// or http://")) << wrong.err;
}

}  // namespace
}  // namespace divvy::testing
