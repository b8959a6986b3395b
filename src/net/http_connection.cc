#include "net/http_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "net/tunnel.h"
#include "net/websocket.h"

namespace divvy::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorNumber = boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using PlainStream = beast::basic_stream<Protocol>;
using TlsStream = asio::ssl::stream<PlainStream>;

constexpr std::uint32_t kMaxHeader = 16384;
constexpr std::string_view kWebSocket = "websocket";

HttpResponse refusal(int status, std::string_view title, std::string_view detail) {
  return {status, "application/problem+json",
          fmt::format(R"({{"type":"about:blank","title":"{}","status":{},"detail":"{}"}})"
                      "\n",
                      title, status, detail)};
}

HttpRequest to_request(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  request.body = message.body();
  for (const auto& field : message.base()) {
    std::string& value = request.headers[to_lower(field.name_string())];
    if (!value.empty()) value += ", ";
    value += field.value();
  }
  return request;
}

// What the library would refuse only after something was opened for it.
bool is_websocket_handshake(const http::request<http::string_body>& request) {
  constexpr std::size_t kKeySize = 24;  // 16 bytes in base64
  return beast::websocket::is_upgrade(request) &&
         request[http::field::sec_websocket_version] == "13" &&
         request[http::field::sec_websocket_key].size() == kKeySize;
}

template <typename Response>
void set_head(Response& response, const HttpResponse& answer, bool keep) {
  response.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep);
}

// Reads and writes with a deadline each, while whoever calls simply blocks: a context of its own
// for every connection.
template <typename Stream>
class Connection final : public HttpStream {
 public:
  Connection(asio::io_context& context, Stream& stream, const Caller& caller,
             const ConnectionRules& rules)
      : context_(context),
        stream_(stream),
        caller_(caller),
        rules_(rules),
        buffer_(rules.options.max_body + 65536) {}

  void serve() {
    while (!rules_.stopping && exchange()) {
    }
  }

  template <typename Start>
  ErrorNumber wait(const Start& start) {
    ErrorNumber code;
    beast::get_lowest_layer(stream_).expires_after(rules_.options.patience);
    start([&code](ErrorNumber result, auto...) { code = result; });
    context_.restart();
    context_.run();
    return code;
  }

  bool send(std::string_view piece) override {
    if (piece.empty()) return !gone_;  // An empty chunk would be the end
    const asio::const_buffer bytes(piece.data(), piece.size());
    if (std::chrono::steady_clock::now() >= next_look_) {
      next_look_ = std::chrono::steady_clock::now() + rules_.options.look_again;
      if (!is_still_for(*streamed_)) gone_ = true;
    }
    const auto write = [&](auto done) {
      if (chunked_) {
        asio::async_write(stream_, http::make_chunk(bytes), done);
      } else {
        asio::async_write(stream_, bytes, done);
      }
    };
    if (!gone_ && wait(write)) gone_ = true;
    return !gone_;
  }

  const Caller& caller() const override { return caller_; }

 private:
  // One request and its answer; false when the connection is to end.
  bool exchange() {
    http::request_parser<http::string_body> parser;
    parser.body_limit(rules_.options.max_body);
    parser.header_limit(kMaxHeader);
    ErrorNumber code =
        wait([&](auto done) { http::async_read_header(stream_, buffer_, parser, done); });
    if (!code && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      const http::response<http::empty_body> go_on(http::status::continue_, 11);
      code = wait([&](auto done) { http::async_write(stream_, go_on, done); });
    }
    if (!code) {
      code = wait([&](auto done) { http::async_read(stream_, buffer_, parser, done); });
    }
    if (code) {
      refuse(code);
      return false;
    }
    const bool keep = parser.get().keep_alive();
    HttpRequest request = to_request(parser.get());
    Asker asker{account_of(request), {}};
    HttpResponse answer = ask(request, asker.account);
    if (!answer.upgrade && !answer.stream) return write(std::move(answer), keep) && keep;
    // It is kept for as long as the answer goes on.
    request.body = {};
    asker.request = std::move(request);
    if (answer.upgrade) return upgrade(parser.get(), answer, asker, keep) && keep;
    return stream(answer, asker, parser.get().version() >= 11, keep) && keep;
  }

  // Whom an answer that goes on for long is for, and how they showed it.
  struct Asker {
    std::string account;
    HttpRequest request;
  };

  std::string account_of(const HttpRequest& request) const {
    const HttpAccount& account = rules_.options.account;
    const auto known = account ? account(request, caller_) : std::nullopt;
    return known ? "account " + *known : caller_.who();
  }
  bool is_still_for(const Asker& asker) const { return account_of(asker.request) == asker.account; }

  HttpResponse ask(const HttpRequest& request, const std::string& account) {
    if (request.method == "CONNECT") {
      return refusal(405, "method not allowed", request.method + " can be done to nothing here");
    }
    if (!rules_.rate.allow(account, SystemClock().now())) {
      HttpResponse busy = refusal(429, "too many requests",
                                  "you ask more often than this server allows; wait a second");
      busy.headers["retry-after"] = "1";
      return busy;
    }
    try {
      return rules_.handler(request, caller_);
    } catch (const std::exception& error) {
      log_error("request failed", {{"path", request.path}, {"reason", error.what()}});
      return refusal(500, "internal error", "the daemon made a mistake; its log says more");
    }
  }

  // What can still be said to somebody who sent no request that can be understood.
  void refuse(const ErrorNumber& code) {
    if (code == http::error::body_limit || code == http::error::header_limit ||
        code == http::error::buffer_overflow) {
      write(refusal(413, "too large", "the request is larger than this server takes"), false);
    } else if (code != http::error::end_of_stream && code != http::error::partial_message &&
               code.category() == make_error_code(http::error::bad_method).category()) {
      write(refusal(400, "bad request", "this is no HTTP/1.1 request"), false);
    }
  }

  bool write(HttpResponse answer, bool keep) {
    http::response<http::string_body> response(static_cast<http::status>(answer.status), 11);
    set_head(response, answer, keep);
    response.body() = std::move(answer.body);
    response.prepare_payload();
    return !wait([&](auto done) { http::async_write(stream_, response, done); });
  }

  // False: there are too many already. Operators, who can end them, have those for their
  // connections besides (HttpServer).
  bool take_stream() {
    const bool operates = caller_.local() && (caller_.uid() == 0 || caller_.uid() == ::geteuid());
    const std::size_t most =
        rules_.options.max_streams + (operates ? rules_.options.max_for_operators : 0);
    if (rules_.streams.fetch_add(1) < most) return true;
    --rules_.streams;
    return false;
  }
  static HttpResponse too_many_streams() {
    return refusal(503, "unavailable", "too many watch already; try again later");
  }

  // Like exchange(): false when the connection is to end, as it does after an upgrade.
  bool upgrade(const http::request<http::string_body>& request, const HttpResponse& offer,
               const Asker& asker, bool keep) {
    const bool web = beast::iequals(request[http::field::upgrade], kWebSocket);
    // Nothing may come before the answer (RFC 6455, 4.1).
    if (web && (!is_websocket_handshake(request) || buffer_.size() > 0)) {
      return write(refusal(400, "bad request", "this is no handshake of a WebSocket (RFC 6455)"),
                   false);
    }
    if (!take_stream()) return write(too_many_streams(), keep);
    UniqueFd socket;
    HttpResponse answer;
    try {
      answer = offer.upgrade(socket);
    } catch (const std::exception& error) {
      log_error("upgrade failed", {{"reason", error.what()}});
      answer = refusal(500, "internal error", "the daemon made a mistake; its log says more");
    }
    const bool refused = answer.status != 101 || !socket;
    if (!refused && web && answer.headers["upgrade"] == kWebSocket) {
      websocket(request, answer, asker, std::move(socket));
    } else if (!refused) {
      tunnel(answer, std::move(socket));
    }
    --rules_.streams;
    return refused && write(std::move(answer), keep);
  }

  void tunnel(const HttpResponse& answer, UniqueFd socket) {
    http::response<http::empty_body> head(http::status::switching_protocols, 11);
    for (const auto& [name, value] : answer.headers) head.set(name, value);
    head.set(http::field::connection, "Upgrade");
    if (wait([&](auto done) { http::async_write(stream_, head, done); })) return;
    if (!caller_.local()) notice_lost_peer();
    ErrorNumber code;
    typename Tunnel<Stream>::Local local(context_);
    code = local.assign(Protocol(AF_UNIX, 0), socket.release(), code);
    if (code) return;
    Tunnel<Stream> both(stream_, local, buffer_, {&rules_.stopping, rules_.options.patience});
    both.start();
    context_.restart();
    context_.run();
  }

  // The answer to the request is the library's to make, but for the protocol that was chosen.
  void websocket(const http::request<http::string_body>& request, const HttpResponse& answer,
                 const Asker& asker, UniqueFd socket) {
    WebSocket<Stream> web(stream_);
    set_up(web);
    web.set_option(beast::websocket::stream_base::decorator(
        [chosen = answer.headers.find("sec-websocket-protocol"),
         &answer](beast::websocket::response_type& response) {
          if (chosen == answer.headers.end()) return;
          response.set(http::field::sec_websocket_protocol, chosen->second);
        }));
    if (wait([&](auto done) { web.async_accept(request, done); })) return;
    ErrorNumber code;
    typename WebSocketTunnel<Stream>::Local local(context_);
    code = local.assign(Protocol(AF_UNIX, 0), socket.release(), code);
    if (code) return;
    WebSocketTunnel<Stream>(
        context_, web, local,
        {.still = [&] { return is_still_for(asker); }, .every = rules_.options.look_again})
        .run();
  }

  // Nobody may say anything for a long time, so the kernel asks whether they are still there.
  void notice_lost_peer() {
    const int fd = beast::get_lowest_layer(stream_).socket().native_handle();
    const int yes = 1;
    const int idle_seconds = 60;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  }

  bool stream(const HttpResponse& answer, const Asker& asker, bool chunked, bool keep) {
    if (!take_stream()) return write(too_many_streams(), keep);
    streamed_ = &asker;
    next_look_ = std::chrono::steady_clock::now() + rules_.options.look_again;
    http::response<http::empty_body> head(static_cast<http::status>(answer.status), 11);
    // Who has no HTTP/1.1 knows the end by the end of the connection.
    chunked_ = chunked;
    set_head(head, answer, keep && chunked);
    head.chunked(chunked);
    head.set(http::field::cache_control, "no-cache");
    http::response_serializer<http::empty_body> serializer(head);
    gone_ = static_cast<bool>(
        wait([&](auto done) { http::async_write_header(stream_, serializer, done); }));
    try {
      if (!gone_) answer.stream(*this);
    } catch (const std::exception& error) {
      // The client sees that the end is missing.
      log_error("stream failed", {{"reason", error.what()}});
      gone_ = true;
    }
    --rules_.streams;
    if (gone_ || !chunked_) return false;
    return !wait([&](auto done) { asio::async_write(stream_, http::make_chunk_last(), done); });
  }

  asio::io_context& context_;
  Stream& stream_;
  const Caller& caller_;
  const ConnectionRules& rules_;
  beast::flat_buffer buffer_;
  bool chunked_ = false;  // Of the stream that runs
  const Asker* streamed_ = nullptr;
  std::chrono::steady_clock::time_point next_look_;
  bool gone_ = false;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string Caller::who() const { return local() ? fmt::format("uid {}", uid_) : address_; }

Caller::Wait Caller::wait_for(int fd, std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    int left = -1;
    if (timeout.count() >= 0) {
      const auto rest =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left = static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 3'600'000));
    }
    pollfd wait[2] = {{fd, POLLIN, 0}, {socket_, POLLRDHUP, 0}};
    const int count = ::poll(wait, 2, left);
    if (count < 0 && errno == EINTR) continue;
    if (wait[1].revents != 0) return Wait::kGone;
    if (wait[0].revents != 0) return Wait::kReady;
    if (count == 0 && (timeout.count() >= 0) && std::chrono::steady_clock::now() >= deadline) {
      return Wait::kTimeout;
    }
    if (count < 0) return Wait::kGone;
  }
}

std::optional<Caller> caller_of(int fd, bool network) {
  if (!network) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
    return Caller(fd, peer.pid, peer.uid, peer.gid);
  }
  SocketAddress from;
  from.size = sizeof from.storage;
  char text[NI_MAXHOST] = {};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&from.storage), &from.size) != 0 ||
      ::getnameinfo(from.get(), from.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  // The same machine is the same caller, whichever way it came to a socket for both.
  std::string_view address = text;
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) address.remove_prefix(kMapped.size());
  // The kernel vouches for nobody on the network.
  return Caller(fd, 0, Caller::kNobody, Caller::kNobody, std::string(address));
}

void serve_connection(int fd, const Caller& caller, const std::shared_ptr<asio::ssl::context>& tls,
                      const ConnectionRules& rules) {
  try {
    asio::io_context context(1);
    PlainStream plain(context);
    ErrorNumber code;
    code = plain.socket().assign(Protocol(caller.local() ? AF_UNIX : AF_INET6, 0),
                                 ::fcntl(fd, F_DUPFD_CLOEXEC, 0), code);
    if (code) return;
    if (tls == nullptr) {
      Connection(context, plain, caller, rules).serve();
      return;
    }
    TlsStream secure(std::move(plain), *tls);
    Connection connection(context, secure, caller, rules);
    // Who speaks no TLS, or none that we believe in, is gone without a word.
    if (connection.wait(
            [&](auto done) { secure.async_handshake(asio::ssl::stream_base::server, done); })) {
      return;
    }
    connection.serve();
  } catch (const std::exception& error) {
    log_warning("connection given up", {{"reason", error.what()}});
  }
}

}  // namespace divvy::net
