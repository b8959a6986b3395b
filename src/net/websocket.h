// A WebSocket (RFC 6455) as a carrier of bytes: messages are pieces of a stream, and where one ends
// means nothing, unless the local socket is one of messages, too. Included by the .cc files of this
// room and by nobody else. On the thread that runs the context.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace divvy::net {

// Without compression, which costs more than it saves here. The stream outlives it.
template <typename Stream>
using WebSocket = boost::beast::websocket::stream<Stream&, false>;

// Before the handshake, on either side.
template <typename Stream>
void set_up(WebSocket<Stream>& socket) {
  socket.binary(true);
  socket.auto_fragment(false);
  socket.read_message_max(0);  // nothing is kept of a message but the piece that was read
  socket.write_buffer_bytes(std::size_t{128} << 10);
}

// Joins a WebSocket after its handshake with a local socket, until either has ended. What was said
// before the end is passed on.
template <typename Stream>
class WebSocketTunnel {
 public:
  using ErrorNumber = boost::system::error_code;
  using Local = boost::asio::generic::stream_protocol::socket;

  // It is cut when `still` says so, which is asked so often. Empty: nobody is asked.
  struct Permission {
    std::function<bool()> still = {};
    std::chrono::milliseconds every = {};
  };

  // All outlive it. `messages`: the local socket takes and gives one message at a time, of at most
  // kMessage bytes; a longer one from the other side is the end.
  WebSocketTunnel(boost::asio::io_context& context, WebSocket<Stream>& socket, Local& local,
                  Permission permission = {}, bool messages = false)
      : context_(context),
        socket_(socket),
        local_(local),
        permission_(std::move(permission)),
        messages_(messages),
        farewell_(context),
        next_look_(context) {}

  // Returns when it is over.
  void run() {
    boost::beast::get_lowest_layer(socket_).expires_never();
    // Both sides look whether the other one is still there, also where nobody says anything.
    boost::beast::websocket::stream_base::timeout times{};
    times.handshake_timeout = boost::beast::websocket::stream_base::none();
    times.idle_timeout = kSilence;
    times.keep_alive_pings = true;
    socket_.set_option(times);
    read_remote();
    read_local();
    if (permission_.still) look_later();
    context_.restart();
    context_.run();
    over_ = true;
    ErrorNumber ignored;
    ignored = local_.close(ignored);
    farewell_.cancel();
    next_look_.cancel();
    boost::beast::get_lowest_layer(socket_).close();
    // What was still waited for is cancelled, and has to be over before this object is.
    context_.restart();
    context_.poll();
  }

 private:
  // A connection that was cut, by a laptop that sleeps, say, is noticed within this time.
  static constexpr std::chrono::seconds kSilence{30};
  static constexpr std::chrono::seconds kFarewell{1};
  static constexpr std::size_t kPiece = std::size_t{256} << 10;
  static constexpr std::size_t kMessage = std::size_t{128} << 10;

  void read_remote() {
    if (over_) return;
    socket_.async_read_some(boost::asio::buffer(in_.get() + in_size_, most_ - in_size_),
                            [this](ErrorNumber code, std::size_t got) {
                              if (code) return stop();
                              in_size_ += got;
                              const bool whole = !messages_ || socket_.is_message_done();
                              if (!whole && in_size_ == most_) return stop();
                              // An empty one would look like the end.
                              if (!whole || in_size_ == 0) return read_remote();
                              write_local(std::exchange(in_size_, 0));
                            });
  }
  void write_local(std::size_t count) {
    boost::asio::async_write(local_, boost::asio::buffer(in_.get(), count),
                             [this](ErrorNumber code, std::size_t) {
                               // Whoever reads no more may still have something to say.
                               if (!code || !ending_) return read_remote();
                             });
  }
  void read_local() {
    local_.async_read_some(boost::asio::buffer(out_.get(), kPiece),
                           [this](ErrorNumber code, std::size_t got) {
                             if (code) return end();
                             socket_.async_write(boost::asio::buffer(out_.get(), got),
                                                 [this](ErrorNumber failed, std::size_t) {
                                                   if (failed) return stop();
                                                   if (!over_) read_local();
                                                 });
                           });
  }
  void look_later() {
    next_look_.expires_after(permission_.every);
    next_look_.async_wait([this](ErrorNumber code) {
      if (code || over_) return;
      if (!permission_.still()) return stop();
      look_later();
    });
  }
  // Everything has been said; the other side is given a moment to hear it.
  void end() {
    if (over_) return;
    ending_ = true;
    farewell_.expires_after(kFarewell);
    farewell_.async_wait([this](ErrorNumber code) {
      if (!code) stop();
    });
    socket_.async_close(boost::beast::websocket::close_code::normal,
                        [this](ErrorNumber) { stop(); });
  }
  // The context runs on without us when it is over: stopping it then would leave handlers behind.
  void stop() {
    if (!over_) context_.stop();
  }

  boost::asio::io_context& context_;
  WebSocket<Stream>& socket_;
  Local& local_;
  const Permission permission_;
  const bool messages_;
  const std::size_t most_ = messages_ ? kMessage : kPiece;
  boost::asio::steady_timer farewell_;
  boost::asio::steady_timer next_look_;
  bool ending_ = false;
  bool over_ = false;
  std::size_t in_size_ = 0;
  std::unique_ptr<char[]> in_ = std::make_unique_for_overwrite<char[]>(kPiece);
  std::unique_ptr<char[]> out_ = std::make_unique_for_overwrite<char[]>(kPiece);
};

}  // namespace divvy::net
