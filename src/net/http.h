// HTTP/1.1 over a Unix socket or TCP: the servers of the local API and of the metrics, and the
// client that speaks to them. No TLS. The library behind it (Boost.Beast) stays inside http_*.cc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/tcp_address.h"

namespace divvy::net {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/tenants/3", as it was sent but without the query
  std::string query;   // What follows the '?'
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

// Who sent a request, as the kernel vouches. For the duration of one call of the handler.
class Caller {
 public:
  // User and group of whoever comes over the network; its pid is 0.
  static constexpr uid_t kNobody = ~uid_t{0};

  Caller(int socket, pid_t pid, uid_t uid, gid_t gid)
      : socket_(socket), pid_(pid), uid_(uid), gid_(gid) {}

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] uid_t uid() const { return uid_; }
  [[nodiscard]] gid_t gid() const { return gid_; }

  enum class Wait { kReady, kGone, kTimeout };
  // Blocks until the descriptor is readable, the caller has hung up (or the server ends), or the
  // time is over; a negative time never is.
  [[nodiscard]] Wait wait_for(int fd, std::chrono::milliseconds timeout) const;

 private:
  int socket_;
  pid_t pid_;
  uid_t uid_;
  gid_t gid_;
};

// Called from many threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest&, const Caller&)>;

struct HttpServerOptions {
  std::filesystem::path socket;
  mode_t mode = 0600;                 // Of the socket: who may connect
  std::optional<TcpAddress> network;  // Instead of the socket
  std::size_t max_connections = 64;   // Those beyond are told to come back later
  std::size_t max_body = 1U << 20U;
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // For one message to arrive
};

// Serves until it is destroyed, which waits for handlers that run. One thread per connection.
class HttpServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> create(HttpServerOptions options,
                                                                  HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // On the network: the port that it has.
  [[nodiscard]] std::uint16_t port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One request on a connection of its own. kUnavailable when nobody listens there, kTimeout when no
// answer came in time; without a time it waits as long as it takes.
[[nodiscard]] Result<HttpResponse> http_request(const std::filesystem::path& socket,
                                                const HttpRequest& request,
                                                std::optional<std::chrono::milliseconds> timeout);
[[nodiscard]] Result<HttpResponse> http_request(const TcpAddress& server,
                                                const HttpRequest& request,
                                                std::optional<std::chrono::milliseconds> timeout);

}  // namespace divvy::net
