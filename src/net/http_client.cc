#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "net/http.h"
#include "net/local_connect.h"
#include "net/tls_context.h"
#include "net/tunnel.h"

namespace divvy::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorNumber = boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using PlainStream = beast::basic_stream<Protocol>;
using TlsStream = asio::ssl::stream<PlainStream>;

constexpr std::size_t kMaxAnswer = 64U << 20U;

// Between one sign of life and the next: somebody who waits for a place may wait for days.
constexpr std::chrono::seconds kNextSilence{30};

Error to_error(const ErrorNumber& code, const std::string& where) {
  if (code == beast::error::timeout) {
    return {ErrorCode::kTimeout, fmt::format("divvyd at {} did not answer in time", where)};
  }
  if (code == asio::error::no_recovery) {
    return {ErrorCode::kTimeout,
            fmt::format("the divvyd at {} runs but does not answer: it is stopped or overloaded. "
                        "What was asked may still be done when it goes on",
                        where)};
  }
  if (code.category() == asio::error::get_ssl_category()) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("the divvyd at {} cannot prove who it is ({}); name the authority that "
                        "signed its certificate",
                        where, code.message())};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("no divvyd answers at {}: {}", where, code.message())};
}

http::request<http::string_body> to_message(const HttpRequest& request) {
  const std::string target =
      request.query.empty() ? request.path : request.path + "?" + request.query;
  http::request<http::string_body> message(http::string_to_verb(request.method), target, 11);
  message.set(http::field::host, "divvyd");
  message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  if (request.header("upgrade").empty()) {
    message.keep_alive(false);
  } else {
    message.set(http::field::connection, "Upgrade");
  }
  message.prepare_payload();
  return message;
}

template <typename Fields>
HttpResponse to_response(const Fields& head) {
  HttpResponse answer;
  answer.status = static_cast<int>(head.result_int());
  answer.content_type = std::string(head[http::field::content_type]);
  for (const auto& field : head) {
    answer.headers[to_lower(field.name_string())] = std::string(field.value());
  }
  return answer;
}

// How long it may take: all of it, or each step of an answer that grows.
struct Times {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::optional<std::chrono::milliseconds> step;
};

// Whether the server at this socket answers anything at all. One that works on something big does;
// one that is stopped does not.
bool gives_sign_of_life(const HttpTarget& local);

// One request on one stream, step by step.
template <typename Stream>
class Exchange {
 public:
  // `local`: whom to ask for a sign of life when nothing comes; null: nobody. Outlives it.
  Exchange(asio::io_context& context, Stream& stream, Times times,
           const HttpTarget* local = nullptr)
      : context_(context), stream_(stream), times_(times), local_(local) {}

  template <typename Start>
  ErrorNumber wait(const Start& start) {
    ErrorNumber code;
    auto& lowest = beast::get_lowest_layer(stream_);
    if (times_.step) {
      lowest.expires_after(*times_.step);
    } else if (times_.deadline) {
      lowest.expires_at(*times_.deadline);
    } else {
      lowest.expires_never();
    }
    bool done = false;
    start([&](ErrorNumber result, auto...) {
      code = result;
      done = true;
    });
    context_.restart();
    if (local_ == nullptr) {
      context_.run();
      return code;
    }
    std::chrono::milliseconds patience = local_->silence;
    while (context_.run_for(patience), !done) {
      context_.restart();
      patience = kNextSilence;
      if (gives_sign_of_life(*local_)) continue;
      lowest.cancel();
      context_.run();
      return asio::error::no_recovery;
    }
    // What the stream has still to do, like ending its timer.
    context_.run();
    return code;
  }

  ErrorNumber ask(const HttpRequest& request, const HttpPieces* pieces, HttpResponse& answer) {
    const auto message = to_message(request);
    ErrorNumber code = wait([&](auto done) { http::async_write(stream_, message, done); });
    // A server that refuses may answer before it has read everything.
    if (code && code != boost::system::errc::broken_pipe &&
        code != boost::system::errc::connection_reset) {
      return code;
    }
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    code = wait([&](auto done) { http::async_read_header(stream_, buffer_, parser, done); });
    if (code) return code;
    answer = to_response(parser.get().base());
    const bool follow = pieces != nullptr && answer.status == 200;
    char block[16384];
    while (!parser.is_done()) {
      parser.get().body().data = block;
      parser.get().body().size = sizeof block;
      code = wait([&](auto done) { http::async_read_some(stream_, buffer_, parser, done); });
      if (code == http::error::need_buffer) code = {};
      const std::string_view piece(block, sizeof block - parser.get().body().size);
      if (follow) {
        if (!piece.empty() && !(*pieces)(piece)) return {};
      } else {
        answer.body += piece;
      }
      if (code) return code;
      if (answer.body.size() > kMaxAnswer) return http::error::body_limit;
    }
    return {};
  }

  // What came behind the answer.
  beast::flat_buffer take_rest() { return std::move(buffer_); }

 private:
  asio::io_context& context_;
  Stream& stream_;
  Times times_;
  const HttpTarget* local_;
  beast::flat_buffer buffer_;
};

bool gives_sign_of_life(const HttpTarget& local) {
  auto fd = connect_locally(local.socket, local.silence);
  if (!fd) return false;
  asio::io_context context(1);
  PlainStream stream(context);
  ErrorNumber code;
  code = stream.socket().assign(Protocol(AF_UNIX, 0), fd->release(), code);
  HttpResponse any;
  Exchange<PlainStream> exchange(context, stream,
                                 {std::chrono::steady_clock::now() + local.silence, {}});
  // Nothing is there, and to say so the daemon needs neither its locks nor the disk.
  return !code && !exchange.ask({.method = "GET", .path = "/v1/alive", .query = {}, .body = {}},
                                nullptr, any);
}

struct Place {
  std::vector<Protocol::endpoint> endpoints;  // Best first
  std::string text;                           // For messages
};

Result<Place> find(const HttpTarget& target) {
  if (!target.network) return Place{{}, target.socket.string()};
  TcpAddress address = *target.network;
  if (address.host.empty()) address.host = "localhost";
  DIVVY_TRY(found, resolve(address));
  Place place{{}, to_string(address)};
  for (const SocketAddress& one : found) {
    place.endpoints.emplace_back(one.get(), one.size, IPPROTO_TCP);
  }
  return place;
}

ErrorNumber handshake(Exchange<TlsStream>& exchange, TlsStream& stream, const HttpTarget& target) {
  const std::string& name = target.tls->name.empty() ? target.network->host : target.tls->name;
  ErrorNumber number;
  (void)asio::ip::make_address(name, number);
  // Names only: an address is not sent.
  if (number) SSL_set_tlsext_host_name(stream.native_handle(), name.c_str());
  stream.set_verify_callback(asio::ssl::host_name_verification(name));
  return exchange.wait(
      [&](auto done) { stream.async_handshake(asio::ssl::stream_base::client, done); });
}

// A connection with all that it needs to live on.
struct Line {
  asio::io_context context{1};
  PlainStream plain{context};
  std::shared_ptr<asio::ssl::context> trust = nullptr;
  std::optional<TlsStream> secure = std::nullopt;  // instead of the plain one
};

// Connects, and calls `use` with the exchange on whatever was made.
template <typename Use>
Status on_line(Line& line, const HttpTarget& target, Times times, const Use& use) {
  DIVVY_TRY(place, find(target));
  try {
    PlainStream& plain = line.plain;
    const bool local = !target.network;
    Exchange<PlainStream> first(line.context, plain, times, local ? &target : nullptr);
    ErrorNumber code;
    if (local) {
      DIVVY_TRY(fd, connect_locally(target.socket, target.silence));
      code = plain.socket().assign(Protocol(AF_UNIX, 0), fd.release(), code);
    }
    for (const Protocol::endpoint& endpoint : place.endpoints) {
      ErrorNumber ignored;
      ignored = plain.socket().close(ignored);
      code = first.wait([&](auto done) { plain.async_connect(endpoint, done); });
      if (!code) break;
    }
    if (!code && target.network && target.tls) {
      DIVVY_TRY(trust, client_context(*target.tls));
      line.trust = std::move(trust);
      line.secure.emplace(std::move(plain), *line.trust);
      Exchange<TlsStream> inside(line.context, *line.secure, times);
      code = handshake(inside, *line.secure, target);
      if (!code) code = use(inside);
    } else if (!code) {
      code = use(first);
    }
    if (code) return err(to_error(code, place.text));
    return {};
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the request to {} failed: {}", place.text, error.what());
  }
}

Result<HttpResponse> speak(const HttpTarget& target, const HttpRequest& request, Times times,
                           const HttpPieces* pieces) {
  Line line;
  HttpResponse answer;
  DIVVY_RETURN_IF_ERROR(on_line(
      line, target, times, [&](auto& exchange) { return exchange.ask(request, pieces, answer); }));
  return answer;
}

Times until(std::optional<std::chrono::milliseconds> timeout) {
  Times times;
  if (timeout) times.deadline = std::chrono::steady_clock::now() + *timeout;
  return times;
}

}  // namespace

Result<HttpResponse> http_request(const HttpTarget& target, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return speak(target, request, until(timeout), nullptr);
}

Result<HttpResponse> http_request(const std::filesystem::path& socket, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return http_request(HttpTarget{.socket = socket}, request, timeout);
}

Result<HttpResponse> http_request(const TcpAddress& server, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  return http_request(HttpTarget{.socket = {}, .network = server}, request, timeout);
}

Result<HttpResponse> http_follow(const HttpTarget& target, const HttpRequest& request,
                                 std::optional<std::chrono::milliseconds> silence,
                                 const HttpPieces& pieces) {
  return speak(target, request, {.deadline = {}, .step = silence}, &pieces);
}

class HttpTunnel::Impl {
 public:
  Impl(std::unique_ptr<Line> line, beast::flat_buffer rest, UniqueFd ours, UniqueFd callers)
      : line_(std::move(line)),
        rest_(std::move(rest)),
        local_(line_->context, Protocol(AF_UNIX, 0), ours.release()),
        callers_(std::move(callers)) {
    line_->context.restart();
    // Signals are for the caller's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Impl() {
    line_->context.stop();
    thread_.join();
  }
  [[nodiscard]] int fd() const { return callers_.get(); }

 private:
  void run() {
    if (line_->secure) {
      pass(*line_->secure);
    } else {
      pass(line_->plain);
    }
  }
  template <typename Stream>
  void pass(Stream& stream) {
    Tunnel<Stream> both(stream, local_, rest_, {});
    both.start();
    line_->context.run();
    // Whoever reads there sees the end, however it came.
    ErrorNumber ignored;
    ignored = local_.close(ignored);
    beast::get_lowest_layer(stream).close();
    // Stopped, it still has what would use the tunnel.
    line_->context.restart();
    line_->context.run();
  }

  std::unique_ptr<Line> line_;
  beast::flat_buffer rest_;
  Protocol::socket local_;
  UniqueFd callers_;
  std::thread thread_;
};

HttpTunnel::HttpTunnel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpTunnel::~HttpTunnel() = default;
int HttpTunnel::fd() const { return impl_->fd(); }

Result<HttpUpgrade> http_upgrade(const HttpTarget& target, const HttpRequest& request,
                                 std::optional<std::chrono::milliseconds> timeout) {
  auto line = std::make_unique<Line>();
  HttpUpgrade made;
  beast::flat_buffer rest;
  DIVVY_RETURN_IF_ERROR(on_line(*line, target, until(timeout), [&](auto& exchange) {
    const ErrorNumber code = exchange.ask(request, nullptr, made.answer);
    rest = exchange.take_rest();
    return code;
  }));
  if (made.answer.status != 101) return made;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  try {
    made.tunnel = std::make_unique<HttpTunnel>(std::make_unique<HttpTunnel::Impl>(
        std::move(line), std::move(rest), UniqueFd(ends[0]), UniqueFd(ends[1])));
  } catch (const std::exception& error) {
    return err(ErrorCode::kResourceExhausted, "no tunnel: {}", error.what());
  }
  return made;
}

}  // namespace divvy::net
