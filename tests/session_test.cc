// Sessions through the real daemon: an app that an operator added, reached from here while the
// daemon is killed and replaced.
#include <fmt/format.h>
#include <signal.h>

#include <fstream>

#include "job_machine.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;

// Answers once there is a file "go" beside it, and shows its folder then.
constexpr const char* kApp = R"(summary: Pages of a folder
program: python3
install: apt-get install python3
run: |
  while [ ! -e go ]; do sleep 0.05; done
  exec python3 -m http.server --bind {address} {port} "$@"
environment:
  WEB_TOKEN: "{token}"
ready: /
open: /page?token={token}
)";

class Sessions : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
    add_app("web", kApp);
    environment_.push_back("XDG_CONFIG_HOME=" + (folder() / "config").string());
    std::ofstream(folder() / "page") << "a page";
  }
  void add_app(const std::string& name, const std::string& text) const {
    fs::create_directories(folder() / "config/divvy/apps");
    std::ofstream(folder() / "config/divvy/apps" / (name + ".yaml")) << text;
  }
  void let_go() const { std::ofstream(folder() / "go") << ""; }
  [[nodiscard]] std::vector<std::string> start_words(const std::string& app) const {
    return {"session",      "start", "--app",           app,       "--gpu", "0.3",
            "--no-browser", "--cwd", folder().string(), "--grace", "1s"};
  }
  // The line with the address, when it is there.
  static std::string address_of(const Program& program) {
    const std::string text = program.printed();
    const std::size_t end = text.find('\n');
    return end == std::string::npos ? "" : text.substr(0, end);
  }
  // What is behind "http://127.0.0.1:PORT/path".
  static std::string get(const std::string& address) {
    constexpr std::string_view kBefore = "http://127.0.0.1:";
    if (!address.starts_with(kBefore)) return "no address: " + address;
    const std::size_t path = address.find('/', kBefore.size());
    net::HttpRequest request;
    request.method = "GET";
    request.path = address.substr(path, address.find('?') - path);
    const auto port = std::stoi(address.substr(kBefore.size(), path - kBefore.size()));
    const auto answer =
        net::http_request(net::TcpAddress{"127.0.0.1", static_cast<std::uint16_t>(port)}, request,
                          std::chrono::minutes(1));
    return answer ? answer->body : answer.error().message;
  }
};

TEST_F(Sessions, AnAppIsWaitedForOpenedAndGoesOnWithoutUs) {
  Program started = start_divvy(start_words("web"), "session");
  EXPECT_TRUE(eventually([&] { return has(started.errors(), "waiting until web answers"); }))
      << started.errors();
  EXPECT_EQ(started.printed(), "") << "no address before somebody answers there";
  let_go();
  ASSERT_TRUE(eventually([&] { return !address_of(started).empty(); })) << started.errors();
  const std::string address = address_of(started);
  EXPECT_TRUE(has(address, "/page?token=")) << address;
  EXPECT_EQ(get(address), "a page");

  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_EQ(get(address), "a page") << "through the next daemon";

  started.signal(SIGINT);
  EXPECT_EQ(started.finish().status, 0);
  const Outcome listed = divvy({"session", "list"});
  EXPECT_TRUE(has(listed.out, "web") && has(listed.out, "running")) << listed.out << listed.err;
  EXPECT_TRUE(has(listed.out, "11h59m") || has(listed.out, "12h00m")) << listed.out;

  // Opened again, with the same secret.
  Program opened = start_divvy({"session", "open", "web", "--no-browser"}, "open");
  ASSERT_TRUE(eventually([&] { return !address_of(opened).empty(); })) << opened.errors();
  EXPECT_EQ(get(address_of(opened)), "a page");
  const auto token = [](const std::string& text) { return text.substr(text.find("token=")); };
  EXPECT_EQ(token(address_of(opened)), token(address));
  EXPECT_EQ(token(address).size(), std::string("token=").size() + 32);

  const Outcome extended = divvy({"session", "extend", "web", "--by", "1h"});
  EXPECT_TRUE(has(extended.out, "ends in 12h59m") || has(extended.out, "ends in 13h00m"))
      << extended.out << extended.err;
  const Outcome stopped = divvy({"session", "stop", "web"});
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_TRUE(
      eventually([&] { return has(divvy({"session", "list"}).out, "you have no session"); }));
}

TEST_F(Sessions, OneThatIsStartedAgainIsReachedAtTheSameAddress) {
  let_go();
  Program started = start_divvy(start_words("web"), "session");
  ASSERT_TRUE(eventually([&] { return !address_of(started).empty(); })) << started.errors();
  const std::string address = address_of(started);
  EXPECT_EQ(get(address), "a page");
  // Every attempt has a port of its own in the job.
  EXPECT_EQ(divvy({"requeue", "web"}).status, 0);
  EXPECT_TRUE(eventually([&] {
    return job(1).at("attempt").to_number<int>() == 2 && get(address) == "a page";
  })) << started.errors();
}

TEST_F(Sessions, TheSecretIsInNoWordOfACommand) {
  let_go();
  Program started = start_divvy(start_words("web"), "session");
  ASSERT_TRUE(eventually([&] { return !address_of(started).empty(); })) << started.errors();
  const std::string address = address_of(started);
  const std::string token = address.substr(address.find("token=") + 6);
  EXPECT_FALSE(has(divvy({"describe", "web"}).out, token));
  EXPECT_FALSE(has(divvy({"list", "-o", "wide"}).out, token));
  EXPECT_FALSE(has(daemon_log(), token));
  EXPECT_FALSE(has(divvy({"ps", "-o", "wide"}).out, token));
}

TEST_F(Sessions, WhatDoesNotComeUpSaysWhy) {
  add_app("broken", "run: echo it is broken; exit 3\nready: /\nopen: /\n");
  const Outcome broken = divvy(start_words("broken"));
  EXPECT_EQ(broken.status, 1) << broken.out;
  EXPECT_TRUE(has(broken.out + broken.err, "it is broken")) << broken.out << broken.err;

  // Seen while it ran or only afterwards: the same is said.
  const Outcome again = divvy({"session", "open", "broken"});
  EXPECT_EQ(again.status, 1) << again.out;
  EXPECT_TRUE(has(again.out, "it is broken")) << again.out << again.err;
  EXPECT_TRUE(has(again.err, "(broken) ended: failed")) << again.err;

  add_app("missing",
          "program: no-such-app\ninstall: pip install it\nrun: exec no-such-app\nopen: /\n");
  const Outcome missing = divvy(start_words("missing"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(
      has(missing.out + missing.err, "no-such-app is not there; get it with pip install it"))
      << missing.out << missing.err;

  const Outcome unknown = divvy(start_words("jupiter"));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(has(unknown.err, "there is no app jupiter; did you mean jupyter?")) << unknown.err;
  add_app("odd", "rum: x\n");
  const Outcome apps = divvy({"session", "apps"});
  EXPECT_TRUE(has(apps.out, "jupyter") && has(apps.out, "web")) << apps.out;
  EXPECT_TRUE(has(apps.err, "odd.yaml:1:1: an app has no field rum; did you mean run?"))
      << apps.err;
}

TEST_F(Sessions, AreToldApartFromOtherJobs) {
  const std::uint64_t job = submit(waiting("plain"));
  ASSERT_NE(job, 0U);
  const Outcome opened = divvy({"session", "open", fmt::to_string(job)});
  EXPECT_EQ(opened.status, 3);
  EXPECT_TRUE(has(opened.err, "is no session")) << opened.err;
  EXPECT_EQ(divvy({"session", "stop", "plain"}).status, 3);
  EXPECT_TRUE(has(divvy({"session", "list"}).out, "you have no session"));
  EXPECT_EQ(divvy({"session", "start", "--members", "2"}).status, 2);
  // One for a terminal does not hang without one.
  std::vector<std::string> words = start_words("shell");
  const Outcome shell = divvy(words);
  EXPECT_EQ(shell.status, 2) << shell.out << shell.err;
  EXPECT_TRUE(has(shell.err, "is for a terminal")) << shell.err;
}

}  // namespace
}  // namespace divvy::testing
