// The client's end of a channel, and a server on a port, for tests of relays.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "sys/channel_pump.h"

namespace divvy::agent {

// Only a test that fails waits so long.
inline constexpr int kTestPatienceMs = 60'000;

// Listens on a free port of the loopback.
class PortServer {
 public:
  PortServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] UniqueFd accept() const {
    pollfd wait{socket_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&wait, 1, kTestPatienceMs), 1) << "nobody connects";
    return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  // On the loopback who has connected is in the queue already.
  [[nodiscard]] bool has_caller() const {
    pollfd wait{socket_.get(), POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }
  void stop() { socket_.reset(); }

 private:
  UniqueFd socket_;
  std::uint16_t port_ = 0;
};

// What a client does, a step at a time: its local socket is `here`.
class ChannelClient {
 public:
  ChannelClient() : ChannelClient(make_pair()) {}

  [[nodiscard]] int here() const { return here_.get(); }
  void carry(UniqueFd connection) { pump_.carry(std::move(connection)); }
  void cut() { pump_.carry({}); }
  [[nodiscard]] bool is_carried() const { return pump_.is_carried(); }
  [[nodiscard]] sys::Channel& channel() { return pump_.channel(); }
  // Until there is something to do, and then that.
  void step() {
    sys::ChannelPump::Waits waits = pump_.waits();
    pollfd both[] = {waits.local, waits.connection};
    ASSERT_GE(::poll(both, 2, kTestPatienceMs), 1) << "nothing happens";
    waits.local = both[0];
    waits.connection = both[1];
    pump_.step(waits);
  }
  // Puts what has come there behind the text.
  void read_into(std::string& text) const {
    char piece[65536];
    for (ssize_t got = 0; (got = ::recv(here_.get(), piece, sizeof piece, MSG_DONTWAIT)) > 0;) {
      text.append(piece, static_cast<std::size_t>(got));
    }
  }

 private:
  struct Pair {
    UniqueFd here;
    UniqueFd there;
  };
  static Pair make_pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  explicit ChannelClient(Pair pair)
      : here_(std::move(pair.here)), pump_(std::move(pair.there), {}) {}

  UniqueFd here_;
  sys::ChannelPump pump_;
};

}  // namespace divvy::agent
