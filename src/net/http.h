// HTTP/1.1 over a Unix socket or TCP, on TCP also inside TLS: the servers of the API and of the
// metrics, and the client that speaks to them. The libraries behind it (Boost.Beast, OpenSSL) stay
// inside this room.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "net/tcp_address.h"
#include "net/tls.h"

namespace divvy::net {

// Names in lower case. Of a name that comes twice the values, with ", " between them.
using HttpHeaders = std::map<std::string, std::string, std::less<>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/tenants/3", as it was sent but without the query
  std::string query;   // What follows the '?'
  std::string body;
  HttpHeaders headers{};

  // What the header says; empty when there is none. `name` in lower case.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

class Caller;

// The body of an answer that grows while it is sent: events, a log that is followed. Used from the
// thread of its connection.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // Returns when the client has room for the next piece. False when it is gone, or took nothing for
  // longer than the server's patience: then it is over. Nothing is kept for a slow client beyond
  // the piece.
  [[nodiscard]] virtual bool send(std::string_view piece) = 0;
  // Whom to wait with for what comes next, and to see that they hang up.
  [[nodiscard]] virtual const Caller& caller() const = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers{};
  // Instead of a body. Called once, after the head was sent; the answer ends when it returns.
  std::function<void(HttpStream&)> stream{};
  // Instead of anything else, for a request with the header "upgrade". Called once, when there is
  // room for one more stream: a status of 101 and a connected socket, whose bytes then go both ways
  // over the connection until both directions have ended; or any other answer. With the header
  // "upgrade: websocket" in the answer they go inside a WebSocket, until one direction has ended;
  // its header "sec-websocket-protocol", if there is one, is then that of the answer on the wire.
  std::function<HttpResponse(UniqueFd& socket)> upgrade{};
};

// Who sent a request, as the kernel vouches. For the duration of one call of the handler or of a
// stream.
class Caller {
 public:
  // User and group of whoever comes over the network; its pid is 0.
  static constexpr uid_t kNobody = ~uid_t{0};

  Caller(int socket, pid_t pid, uid_t uid, gid_t gid, std::string address = {})
      : socket_(socket), pid_(pid), uid_(uid), gid_(gid), address_(std::move(address)) {}

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] uid_t uid() const { return uid_; }
  [[nodiscard]] gid_t gid() const { return gid_; }
  // On the network: theirs, as a number. Empty on the socket.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool local() const { return address_.empty(); }
  // What limits count by: "uid 1000" or "10.0.0.7".
  [[nodiscard]] std::string who() const;

  enum class Wait { kReady, kGone, kTimeout };
  // Blocks until the descriptor is readable, the caller has hung up (or the server ends), or the
  // time is over; a negative time never is.
  [[nodiscard]] Wait wait_for(int fd, std::chrono::milliseconds timeout) const;

 private:
  int socket_;
  pid_t pid_;
  uid_t uid_;
  gid_t gid_;
  std::string address_;
};

// Called from many threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest&, const Caller&)>;

// Whom a request counts for; nothing: nobody whom we know, so its address or user of the machine.
using HttpAccount =
    std::function<std::optional<std::string>(const HttpRequest& request, const Caller& caller)>;

struct HttpServerOptions {
  std::filesystem::path socket;
  mode_t mode = 0600;                 // Of the socket: who may connect
  std::optional<TcpAddress> network;  // Instead of the socket
  std::optional<TlsIdentity> tls{};   // On the network
  std::size_t max_connections = 64;   // Those beyond are told to come back later
  std::size_t max_per_caller = 0;     // Connections of one user or address; 0: as many as there are
  std::size_t max_streams = 32;       // Answers that grow, upgrades; the rest is for those that end
  std::size_t max_for_operators = 0;  // Beyond max_connections, for root and our own user
  std::uint32_t max_rate = 0;         // Requests a second of one account; 0: any number
  // Who has shown who they are is not kept waiting by a stranger at the same address.
  HttpAccount account{};
  // How often it is looked whether an answer that grows, or an upgrade, is still for the account
  // that asked for it: its token may have been revoked.
  std::chrono::milliseconds look_again = std::chrono::seconds(30);
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

  // Reads certificate and key anew, for connections from now on; the old ones stay when the new
  // ones are no good.
  [[nodiscard]] Status reload_tls();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Where a server is.
struct HttpTarget {
  std::filesystem::path socket;
  std::optional<TcpAddress> network{};  // Instead of the socket
  std::optional<TlsTrust> tls{};        // On the network
  // On the socket: whoever says nothing for so long is asked for a sign of life, and given up where
  // none comes within the same time, whatever the time for the answer itself is.
  std::chrono::milliseconds silence = std::chrono::seconds(3);
  std::string server = "divvyd";  // What it is, for messages
  // An answer with a larger body is given up: kUnavailable. One that is followed may be any size.
  std::size_t largest_answer = std::size_t{64} << 20U;
};

// One request on a connection of its own. kUnavailable when nobody listens there, kTimeout when no
// answer came in time; without a time it waits as long as it takes. On a socket nothing is said to
// anybody but root and our own user (net/local_connect.h): kPermissionDenied.
[[nodiscard]] Result<HttpResponse> http_request(const HttpTarget& target,
                                                const HttpRequest& request,
                                                std::optional<std::chrono::milliseconds> timeout);
[[nodiscard]] Result<HttpResponse> http_request(const std::filesystem::path& socket,
                                                const HttpRequest& request,
                                                std::optional<std::chrono::milliseconds> timeout);
[[nodiscard]] Result<HttpResponse> http_request(const TcpAddress& server,
                                                const HttpRequest& request,
                                                std::optional<std::chrono::milliseconds> timeout);

// Takes a piece of the body as it comes; false: that is enough.
using HttpPieces = std::function<bool(std::string_view)>;

// Like http_request() for an answer that grows. Pieces of an answer with a status of 200 go to
// `pieces`, and the result has no body; any other status comes with its body and no pieces.
// `silence` is how long nothing may come (servers send a sign of life), after which it is kTimeout.
[[nodiscard]] Result<HttpResponse> http_follow(const HttpTarget& target, const HttpRequest& request,
                                               std::optional<std::chrono::milliseconds> silence,
                                               const HttpPieces& pieces);

// A connection after an upgrade, as a socket. What is written there goes to the server and the
// other way round; the end of one direction is passed on.
class HttpTunnel {
 public:
  class Impl;
  explicit HttpTunnel(std::unique_ptr<Impl> impl);
  // Cuts the connection.
  ~HttpTunnel();
  HttpTunnel(const HttpTunnel&) = delete;
  HttpTunnel& operator=(const HttpTunnel&) = delete;

  [[nodiscard]] int fd() const;

 private:
  std::unique_ptr<Impl> impl_;
};

struct HttpUpgrade {
  HttpResponse answer;                 // the refusal with its body, where there is no tunnel
  std::unique_ptr<HttpTunnel> tunnel;  // with a status of 101
};

// What goes through a WebSocket: bytes, or messages of at most 128 KiB, each of which is one read
// and one write of the tunnel's socket (SOCK_SEQPACKET).
enum class TunnelOf { kBytes, kMessages };

// Like http_request(), with the header "upgrade" in the request. Where that says "websocket", the
// tunnel goes through one, and its end in one direction is its end.
[[nodiscard]] Result<HttpUpgrade> http_upgrade(const HttpTarget& target, const HttpRequest& request,
                                               std::optional<std::chrono::milliseconds> timeout,
                                               TunnelOf of = TunnelOf::kBytes);

}  // namespace divvy::net
