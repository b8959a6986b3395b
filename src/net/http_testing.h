// A server on a free port of this machine, and ways to speak to it. Only for tests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "net/http.h"

namespace divvy::net {

class HttpServerTest : public ::testing::Test {
 protected:
  void serve(HttpHandler handler) {
    options_.network = TcpAddress{"127.0.0.1", 0};
    auto made = HttpServer::create(options_, std::move(handler));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    server_ = *std::move(made);
  }

  [[nodiscard]] HttpTarget target() const {
    return {.socket = {}, .network = TcpAddress{"127.0.0.1", server_->port()}};
  }
  [[nodiscard]] Result<HttpResponse> get(const std::string& path, HttpHeaders headers = {}) const {
    return http_request(
        target(),
        {.method = "GET", .path = path, .query = {}, .body = {}, .headers = std::move(headers)},
        std::chrono::seconds(30));
  }
  [[nodiscard]] Result<HttpResponse> follow(const std::string& path,
                                            const HttpPieces& pieces) const {
    return http_follow(target(), {.method = "GET", .path = path, .query = {}, .body = {}},
                       std::chrono::seconds(30), pieces);
  }

  // A connection that says `bytes`, as no client would.
  [[nodiscard]] int say(std::string_view bytes) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return fd;
  }
  // Everything until the other end hangs up.
  static std::string hear(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t size = ::read(fd, buffer, sizeof buffer);
      if (size <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(size));
    }
  }

  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace divvy::net
