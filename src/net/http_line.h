// One connection of a client, from connect to close, with one request after the other on it.
// Included by the .cc files of this room and by nobody else. One thread at a time.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "net/http.h"
#include "net/tls_context.h"
#include "net/websocket.h"

namespace divvy::net {

// How long it may take: all of it, or each step of an answer that grows.
struct Times {
  std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;
  std::optional<std::chrono::milliseconds> step = std::nullopt;
};

[[nodiscard]] Times until(std::optional<std::chrono::milliseconds> timeout);

class Line {
 public:
  using PlainStream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;
  using TlsStream = boost::asio::ssl::stream<PlainStream>;
  using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

  // Connects. `trust` is what the target's trust was made into; null: it is made now. A request to
  // stop ends this and every ask() with kCancelled.
  [[nodiscard]] static Result<std::unique_ptr<Line>> open(const HttpTarget& target, Times times,
                                                          const std::stop_token& stop = {},
                                                          TlsContext trust = nullptr);

  struct Asking {
    const HttpPieces* pieces = nullptr;  // Who takes the body of a status of 200
    bool keep = false;                   // There is to be another request after this one
  };
  [[nodiscard]] Result<HttpResponse> ask(const HttpRequest& request, Times times, Asking asking);

  // The same for a request that makes a WebSocket of the connection, with status 101; or the
  // refusal.
  [[nodiscard]] Result<HttpResponse> open_websocket(const HttpRequest& request, Times times);
  // After that: bytes go both ways between it and the local socket, or messages where that is a
  // socket of messages. Returns when it is over.
  void carry(boost::asio::generic::stream_protocol::socket& local, bool messages);

  // Of the last ask(): whether any of its answer came, and whether another may follow.
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] bool reusable() const { return reusable_; }
  // While nothing was asked: nothing came, and the other end has not hung up.
  [[nodiscard]] bool is_quiet();

  // What came behind the answer.
  [[nodiscard]] boost::beast::flat_buffer take_rest() { return std::move(buffer_); }
  [[nodiscard]] boost::asio::io_context& context() { return context_; }
  // Calls `use` with the stream, whichever it is.
  template <typename Use>
  auto with_stream(const Use& use) {
    return secure_ ? use(*secure_) : use(plain_);
  }

 private:
  class Stop;
  using ErrorNumber = boost::system::error_code;

  Line(HttpTarget target, std::stop_token stop)
      : target_(std::move(target)), stop_(std::move(stop)) {}

  // Whether the server at this socket answers anything at all.
  [[nodiscard]] static bool gives_sign_of_life(const HttpTarget& local);
  [[nodiscard]] Status connect(Times times, TlsContext trust);
  [[nodiscard]] Error to_error(const ErrorNumber& code) const;
  [[nodiscard]] ErrorNumber handshake(Times times);
  // Starts something on the stream and runs until it is done, or the time is over.
  template <typename Stream, typename Start>
  ErrorNumber wait(Stream& stream, Times times, const Start& start);
  template <typename Stream>
  ErrorNumber shake_hands(std::unique_ptr<WebSocket<Stream>>& web, Stream& stream,
                          const HttpRequest& request, Times times, HttpResponse& answer);
  template <typename Stream>
  ErrorNumber exchange(Stream& stream, const HttpRequest& request, Times times, Asking asking,
                       HttpResponse& answer);

  const HttpTarget target_;
  const std::stop_token stop_;
  std::string where_;  // For messages
  boost::asio::io_context context_{1};
  PlainStream plain_{context_};
  TlsContext trust_;
  std::optional<TlsStream> secure_;  // Instead of the plain one
  std::unique_ptr<WebSocket<PlainStream>> plain_web_;
  std::unique_ptr<WebSocket<TlsStream>> secure_web_;
  boost::beast::flat_buffer buffer_;
  bool patient_ = false;  // Asks for no sign of life
  bool answered_ = false;
  bool reusable_ = false;
};

}  // namespace divvy::net
