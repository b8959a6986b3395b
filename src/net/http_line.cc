#include "net/http_line.h"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "net/local_connect.h"

namespace divvy::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;

// Between one sign of life and the next: somebody who waits for a place may wait for days.
constexpr std::chrono::seconds kNextSilence{30};

// What the other end said before it hung up, rather than what we think of it.
bool is_alert(const boost::system::error_code& code) {
  return code.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(code.value())) >= SSL_AD_REASON_OFFSET;
}

http::request<http::string_body> to_message(const HttpRequest& request, bool keep) {
  const std::string target =
      request.query.empty() ? request.path : request.path + "?" + request.query;
  http::request<http::string_body> message(http::string_to_verb(request.method), target, 11);
  message.set(http::field::host, "divvyd");
  message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  if (request.header("upgrade").empty()) {
    message.keep_alive(keep);
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

}  // namespace

Times until(std::optional<std::chrono::milliseconds> timeout) {
  Times times;
  if (timeout) times.deadline = std::chrono::steady_clock::now() + *timeout;
  return times;
}

// While it lives, a request to stop closes the connection, on the thread that waits for it.
class Line::Stop {
 public:
  explicit Stop(Line& line)
      : callback_(line.stop_, [&line] {
          asio::post(line.context_, [&line] {
            line.with_stream([](auto& stream) { beast::get_lowest_layer(stream).close(); });
          });
        }) {}

 private:
  std::stop_callback<std::function<void()>> callback_;
};

Error Line::to_error(const ErrorNumber& code) const {
  const std::string& server = target_.server;
  if (stop_.stop_requested()) {
    return {ErrorCode::kCancelled, fmt::format("the request to {} was stopped", where_)};
  }
  if (code == beast::error::timeout) {
    return {ErrorCode::kTimeout, fmt::format("{} at {} did not answer in time", server, where_)};
  }
  if (code == asio::error::no_recovery) {
    return {ErrorCode::kTimeout,
            fmt::format("the {} at {} runs but does not answer: it is stopped or overloaded. "
                        "What was asked may still be done when it goes on",
                        server, where_)};
  }
  if (is_alert(code)) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("the {} at {} does not take our certificate ({})", server, where_,
                        code.message())};
  }
  if (code.category() == asio::error::get_ssl_category()) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("the {} at {} cannot prove who it is ({}); name the authority that "
                        "signed its certificate",
                        server, where_, code.message())};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("no {} answers at {}: {}", server, where_, code.message())};
}

// One that works on something big does; one that is stopped does not.
bool Line::gives_sign_of_life(const HttpTarget& local) {
  Line line(local, {});
  line.patient_ = true;
  const Times times = until(local.silence);
  // Nothing is there, and to say so the daemon needs neither its locks nor the disk.
  return line.connect(times, nullptr) &&
         line.ask({.method = "GET", .path = "/v1/alive", .query = {}, .body = {}}, times, {});
}

template <typename Stream, typename Start>
Line::ErrorNumber Line::wait(Stream& stream, Times times, const Start& start) {
  ErrorNumber code;
  auto& lowest = beast::get_lowest_layer(stream);
  if (times.step) {
    lowest.expires_after(*times.step);
  } else if (times.deadline) {
    lowest.expires_at(*times.deadline);
  } else {
    lowest.expires_never();
  }
  bool done = false;
  start([&](ErrorNumber result, auto...) {
    code = result;
    done = true;
  });
  context_.restart();
  if (target_.network || patient_) {
    context_.run();
    return code;
  }
  std::chrono::milliseconds patience = target_.silence;
  while (context_.run_for(patience), !done) {
    context_.restart();
    patience = kNextSilence;
    if (gives_sign_of_life(target_)) continue;
    lowest.cancel();
    context_.run();
    return asio::error::no_recovery;
  }
  // What the stream has still to do, like ending its timer.
  context_.run();
  return code;
}

Line::ErrorNumber Line::handshake(Times times) {
  const std::string& name = target_.tls->name.empty() ? target_.network->host : target_.tls->name;
  ErrorNumber number;
  (void)asio::ip::make_address(name, number);
  // Names only: an address is not sent.
  if (number) SSL_set_tlsext_host_name(secure_->native_handle(), name.c_str());
  secure_->set_verify_callback(asio::ssl::host_name_verification(name));
  return wait(*secure_, times,
              [&](auto done) { secure_->async_handshake(asio::ssl::stream_base::client, done); });
}

Status Line::connect(Times times, TlsContext trust) {
  where_ = target_.network ? to_string(*target_.network) : target_.socket.string();
  DIVVY_TRY(place, find(target_));
  where_ = place.text;
  const Stop stop(*this);
  ErrorNumber code;
  if (!target_.network) {
    DIVVY_TRY(fd, connect_locally(target_.socket, target_.silence));
    code = plain_.socket().assign(Protocol(AF_UNIX, 0), fd.release(), code);
  }
  for (const Protocol::endpoint& endpoint : place.endpoints) {
    ErrorNumber ignored;
    ignored = plain_.socket().close(ignored);
    code = wait(plain_, times, [&](auto done) { plain_.async_connect(endpoint, done); });
    if (!code || stop_.stop_requested()) break;
  }
  if (!code && target_.network && target_.tls) {
    if (trust == nullptr) {
      DIVVY_TRY(made, client_context(*target_.tls));
      trust = std::move(made);
    }
    trust_ = std::move(trust);
    secure_.emplace(std::move(plain_), *trust_);
    code = handshake(times);
  }
  if (code || stop_.stop_requested()) return err(to_error(code));
  return {};
}

Result<std::unique_ptr<Line>> Line::open(const HttpTarget& target, Times times,
                                         const std::stop_token& stop, TlsContext trust) {
  auto line = std::unique_ptr<Line>(new Line(target, stop));
  try {
    DIVVY_RETURN_IF_ERROR(line->connect(times, std::move(trust)));
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the request to {} failed: {}", line->where_, error.what());
  }
  return line;
}

template <typename Stream>
Line::ErrorNumber Line::exchange(Stream& stream, const HttpRequest& request, Times times,
                                 Asking asking, HttpResponse& answer) {
  const auto message = to_message(request, asking.keep);
  ErrorNumber code =
      wait(stream, times, [&](auto done) { http::async_write(stream, message, done); });
  // A server that refuses may answer before it has read everything.
  if (code && code != boost::system::errc::broken_pipe &&
      code != boost::system::errc::connection_reset) {
    return code;
  }
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  code = wait(stream, times,
              [&](auto done) { http::async_read_header(stream, buffer_, parser, done); });
  answered_ = !code || parser.got_some();
  if (code) return code;
  answer = to_response(parser.get().base());
  const bool follow = asking.pieces != nullptr && answer.status == 200;
  char block[16384];
  while (!parser.is_done()) {
    parser.get().body().data = block;
    parser.get().body().size = sizeof block;
    code = wait(stream, times,
                [&](auto done) { http::async_read_some(stream, buffer_, parser, done); });
    if (code == http::error::need_buffer) code = {};
    const std::string_view piece(block, sizeof block - parser.get().body().size);
    if (follow) {
      if (!piece.empty() && !(*asking.pieces)(piece)) return {};
    } else {
      answer.body += piece;
    }
    if (code) return code;
    if (answer.body.size() > target_.largest_answer) return http::error::body_limit;
  }
  reusable_ = asking.keep && parser.keep_alive() && buffer_.size() == 0;
  return {};
}

Result<HttpResponse> Line::ask(const HttpRequest& request, Times times, Asking asking) {
  answered_ = false;
  reusable_ = false;
  HttpResponse answer;
  try {
    const Stop stop(*this);
    const ErrorNumber code =
        with_stream([&](auto& stream) { return exchange(stream, request, times, asking, answer); });
    if (code) return err(to_error(code));
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the request to {} failed: {}", where_, error.what());
  }
  return answer;
}

template <typename Stream>
Line::ErrorNumber Line::shake_hands(std::unique_ptr<WebSocket<Stream>>& web, Stream& stream,
                                    const HttpRequest& request, Times times, HttpResponse& answer) {
  web = std::make_unique<WebSocket<Stream>>(stream);
  set_up(*web);
  web->set_option(
      beast::websocket::stream_base::decorator([&request](beast::websocket::request_type& message) {
        for (const auto& [name, value] : request.headers) message.set(name, value);
      }));
  const std::string target =
      request.query.empty() ? request.path : request.path + "?" + request.query;
  beast::websocket::response_type response;
  ErrorNumber code = wait(
      stream, times, [&](auto done) { web->async_handshake(response, "divvyd", target, done); });
  if (code && code != beast::websocket::error::upgrade_declined) return code;
  answer = to_response(response.base());
  answer.body = response.body();
  return {};
}

Result<HttpResponse> Line::open_websocket(const HttpRequest& request, Times times) {
  HttpResponse answer;
  try {
    const Stop stop(*this);
    const ErrorNumber code = secure_ ? shake_hands(secure_web_, *secure_, request, times, answer)
                                     : shake_hands(plain_web_, plain_, request, times, answer);
    if (code) return err(to_error(code));
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the request to {} failed: {}", where_, error.what());
  }
  return answer;
}

void Line::carry(Protocol::socket& local, bool messages) {
  if (secure_web_) {
    WebSocketTunnel<TlsStream>(context_, *secure_web_, local, {}, messages).run();
  } else {
    WebSocketTunnel<PlainStream>(context_, *plain_web_, local, {}, messages).run();
  }
}

bool Line::is_quiet() {
  const int fd = with_stream(
      [](auto& stream) { return beast::get_lowest_layer(stream).socket().native_handle(); });
  pollfd wait{fd, POLLIN | POLLRDHUP, 0};
  return ::poll(&wait, 1, 0) == 0;
}

}  // namespace divvy::net
