// Ports of jobs from elsewhere, through the real daemon, which is killed and replaced meanwhile.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "job_machine.h"

namespace divvy::testing {
namespace {

class Tunnels : public JobMachine {
 protected:
  // A job that sends back what comes to its port.
  void submit_echo() {
    job_ = submit({{"name", "echo"},
                   {"gpu", 0.3},
                   {"grace", "1s"},
                   {"command", {TCP_ECHO_PROGRAM, (folder() / "port").string()}}});
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder() / "port"); }))
        << job(job_);
    port_ = static_cast<std::uint16_t>(std::stoi(read_file("port")));
  }
  // A `divvy port-forward`, and the port where it listens.
  struct Forward {
    Program program;
    std::uint16_t port = 0;
  };
  Forward forward(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"port-forward", "echo", fmt::format(":{}", port_)};
    words.insert(words.end(), more.begin(), more.end());
    Forward made{start_divvy(words, "forward"), 0};
    EXPECT_TRUE(eventually([&] { return has(made.program.printed(), " of job "); }))
        << made.program.errors();
    const std::string line = made.program.printed();
    if (line.starts_with("127.0.0.1:"))
      made.port = static_cast<std::uint16_t>(std::stoi(line.substr(10)));
    return made;
  }
  static UniqueFd connect_to_local(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    // Only a test that fails waits so long.
    const timeval most{120, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    return fd;
  }
  static void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(sent, 0) << std::strerror(errno);
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // So many bytes, or what came before the end.
  static std::string read_some(int fd, std::size_t count) {
    std::string text(count, '\0');
    std::size_t got = 0;
    while (got < count) {
      const ssize_t now = ::read(fd, text.data() + got, count - got);
      if (now <= 0) break;
      got += static_cast<std::size_t>(now);
    }
    text.resize(got);
    return text;
  }
  static std::string say(int fd, const std::string& text) {
    send_all(fd, text);
    return read_some(fd, text.size());
  }
  static std::string random_bytes(std::size_t count) {
    std::mt19937_64 random(11);
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  void replace_daemon(const std::vector<std::string>& options = {}) {
    stop_daemon(SIGKILL);
    start_daemon(options);
  }

  std::uint64_t job_ = 0;
  std::uint16_t port_ = 0;
};

TEST_F(Tunnels, EverythingArrivesOnceWhileTheDaemonIsKilledAndReplaced) {
  start_daemon();
  submit_echo();
  const Forward forwarded = forward();
  const UniqueFd client = connect_to_local(forwarded.port);
  // More than all that is kept on the way, so that much of it is still to come after each kill.
  const std::string sent = random_bytes(std::size_t{48} << 20);
  std::thread writer([&] {
    send_all(client.get(), sent);
    ::shutdown(client.get(), SHUT_WR);
  });
  std::string got = read_some(client.get(), std::size_t{3} << 20);
  replace_daemon();
  got += read_some(client.get(), std::size_t{8} << 20);
  replace_daemon();
  got += read_some(client.get(), sent.size() - got.size());
  writer.join();
  EXPECT_TRUE(got == sent) << got.size() << " of " << sent.size() << " bytes";
  EXPECT_EQ(read_some(client.get(), 1), "") << "and then the end";
  EXPECT_EQ(forwarded.program.errors(), "");
}

TEST_F(Tunnels, ConnectionsThatSayNothingGoOnAndNewOnesWaitForTheNextDaemon) {
  start_daemon();
  submit_echo();
  const Forward forwarded = forward();
  const UniqueFd quiet = connect_to_local(forwarded.port);
  const UniqueFd other = connect_to_local(forwarded.port);
  EXPECT_EQ(say(quiet.get(), "one"), "one");
  EXPECT_EQ(say(other.get(), "two"), "two");
  stop_daemon(SIGKILL);
  const UniqueFd late = connect_to_local(forwarded.port);
  send_all(late.get(), "late");
  send_all(quiet.get(), "said to nobody");
  start_daemon();
  EXPECT_EQ(read_some(quiet.get(), 14), "said to nobody");
  EXPECT_EQ(say(other.get(), "two"), "two");
  EXPECT_EQ(read_some(late.get(), 4), "late");
}

TEST_F(Tunnels, TheEndOfAConnectionReachesTheJobAndInterruptingTheCommandIsNoError) {
  start_daemon();
  submit_echo();
  Forward forwarded = forward();
  UniqueFd first = connect_to_local(forwarded.port);
  EXPECT_EQ(say(first.get(), "x"), "x");
  first.reset();
  EXPECT_TRUE(eventually([&] { return read_file("port.ended") == "ended\n"; }));
  const UniqueFd second = connect_to_local(forwarded.port);
  EXPECT_EQ(say(second.get(), "x"), "x");
  forwarded.program.signal(SIGINT);
  const Outcome outcome = forwarded.program.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(eventually([&] { return read_file("port.ended") == "ended\nended\n"; }));
}

TEST_F(Tunnels, WhoComesBackTooLateIsToldSo) {
  start_daemon({"--set", "api.keep_channels=5s"});
  submit_echo();
  const Forward forwarded = forward();
  const UniqueFd client = connect_to_local(forwarded.port);
  EXPECT_EQ(say(client.get(), "x"), "x");
  stop_daemon(SIGKILL);
  // The relay does not need the daemon to give it up, and neither does the client.
  EXPECT_TRUE(eventually([&] { return read_file("port.ended") == "ended\n"; }));
  start_daemon();
  EXPECT_EQ(read_some(client.get(), 1), "");
  EXPECT_TRUE(eventually([&] {
    return has(forwarded.program.errors(), "the connection to the job is lost: ");
  })) << forwarded.program.errors();
  const UniqueFd next = connect_to_local(forwarded.port);
  EXPECT_EQ(say(next.get(), "y"), "y") << "the next connection is fine";
}

TEST_F(Tunnels, WhatCannotBeForwardedIsSaid) {
  start_daemon();
  submit_echo();
  EXPECT_EQ(divvy({"port-forward", "echo", "0"}).status, 2);
  EXPECT_EQ(divvy({"port-forward", "echo", "1:2:3"}).status, 2);
  EXPECT_EQ(divvy({"port-forward", "nobody", "80"}).status, 3);
  EXPECT_EQ(divvy({"port-forward", "echo", "80", "--rank", "7"}).status, 3);
  const Outcome taken = divvy({"port-forward", "echo", fmt::format("{0}:{0}", port_)});
  EXPECT_NE(taken.status, 0);
  EXPECT_TRUE(has(taken.err, "cannot be used")) << taken.err;
  // Where nobody listens in the job, each connection is broken, and the command goes on.
  port_ = 1;
  const Forward forwarded = forward();
  const UniqueFd client = connect_to_local(forwarded.port);
  EXPECT_EQ(read_some(client.get(), 1), "");
  EXPECT_TRUE(eventually([&] {
    return has(forwarded.program.errors(), "nothing listens on port 1 there");
  })) << forwarded.program.errors();
}

TEST_F(Tunnels, TheRouteOpensAChannelOnceAndCarriesItOverAWebSocketOnly) {
  start_daemon();
  submit_echo();
  const std::string path = fmt::format("/v1/jobs/{}/channels", job_);
  const std::string name(64, 'a');
  const std::string body =
      fmt::format(R"({{"channel":"{}","kind":"port","port":{}}})", name, port_);
  const Answer opened = ask("POST", path, body);
  EXPECT_EQ(opened.status, 201);
  EXPECT_EQ(opened.body.at("channel").as_string(), name);
  EXPECT_EQ(opened.body.at("keep_seconds").to_number<int>(), 600);
  EXPECT_EQ(ask("POST", path, body).status, 201) << "the answer to the first may have been lost";
  EXPECT_EQ(ask("GET", path + "?channel=" + name).status, 426);
  EXPECT_EQ(ask("GET", path + "?channel=" + std::string(64, 'b')).status, 404)
      << "a page asks like this whether there is anything to come back to";
  EXPECT_EQ(ask("GET", path + "?channel=short").status, 400);
  EXPECT_EQ(ask("POST", path, R"({"kind":"port","port":80})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/jobs/999/channels", body).status, 404);
}

}  // namespace
}  // namespace divvy::testing
